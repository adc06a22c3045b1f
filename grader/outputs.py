"""What is kept of a kernel's output: bounded by bytes and by count, and no message can break the grader."""

from __future__ import annotations

import json
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_output

CELL_BYTES = 500_000
NOTEBOOK_BYTES = 5_000_000
CELL_OUTPUTS = 100
MESSAGE = 4000
"""Characters of an error's message, and of one piece of its traceback."""

_NOTE = (
    f"[output ends here: at most {CELL_BYTES // 1000} kB and {CELL_OUTPUTS} pieces of a cell are kept, "
    f"and {NOTEBOOK_BYTES // 1000} kB of a notebook]"
)
_KEPT = ("stream", "display_data", "execute_result", "error")


class OutputMeter:
    """Counts the output of one notebook as it comes."""

    def __init__(self, cell_bytes: int = CELL_BYTES, notebook_bytes: int = NOTEBOOK_BYTES) -> None:
        self._cell_bytes, self._notebook_bytes = cell_bytes, notebook_bytes
        self._total = 0
        self._cell: NotebookNode | None = None
        self._bytes = 0

    def admits(self, message: dict[str, Any], cell: NotebookNode) -> bool:
        """Whether nbclient should handle a message. Text that follows text of its kind is joined to it here.

        Widgets and updates of earlier output aren't kept: they would change what stands in other cells.
        """
        kind = message["msg_type"]
        if kind not in _KEPT:
            return kind in ("status", "execute_input", "clear_output")
        if self._cell is not cell:
            self._cell, self._bytes = cell, 0
        content = message["content"]
        size = len(json.dumps(content, default=str))
        if not self._has_room(size, len(cell.outputs)):
            self._say_so(cell)
            return False
        self._bytes += size
        self._total += size
        if kind == "stream" and cell.outputs and cell.outputs[-1].get("name") == content["name"]:
            cell.outputs[-1]["text"] += content["text"]
            return False
        return True

    def _has_room(self, size: int, outputs: int) -> bool:
        return (
            self._bytes + size <= self._cell_bytes
            and self._total + size <= self._notebook_bytes
            and outputs <= CELL_OUTPUTS
        )

    def _say_so(self, cell: NotebookNode) -> None:
        # What comes later, even if small, would stand in the wrong place.
        self._bytes = self._cell_bytes
        if not cell.outputs or cell.outputs[-1].get("text") != _NOTE:
            cell.outputs.append(new_output("stream", name="stdout", text=_NOTE))


def trim(cell: NotebookNode) -> None:
    """Shorten errors: they also come on a channel that isn't counted."""
    for output in cell.get("outputs", []):
        if output.output_type == "error":
            output.ename, output.evalue = str(output.ename)[:200], str(output.evalue)[:MESSAGE]
            lines = output.traceback if isinstance(output.traceback, list) else []
            output.traceback = [str(line)[:MESSAGE] for line in lines[-40:]]
