"""Read a lab's text source (jupytext py:percent) and turn it into nbgrader's source notebook.

Two cell options are short forms of nbgrader's metadata: ``answer="x1"`` is a cell that the learner edits, and
``check="x1" points=2`` is the locked, autograded test of that answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
HEADER_KEYS = ("name", "title", "minutes", "machine_seconds", "device", "needs")
OUTPUT_TAG = "nbval-check-output"
OUTPUT_MARK = "# >"

_MARKER = re.compile(r"^\s*#\s*%%(\s|$)")
_FACTS = re.compile(r"^\{\{\s*facts\s*\}\}$", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """One cell of a text source."""

    line: int
    """Number of its ``# %%`` line in the file."""
    kind: str
    """``code``, ``markdown`` or ``raw``."""
    options: dict[str, Any]
    """What stands behind ``# %%``."""
    source: str
    text: list[tuple[int, str]]
    """The lines below the ``# %%`` line as they stand in the file, with their numbers."""

    @property
    def grade_id(self) -> str | None:
        """nbgrader's id of an answer or a check, None for any other cell."""
        if "answer" in self.options:
            return self.options["answer"]
        return f"{self.options['check']}-check" if "check" in self.options else None

    @property
    def tags(self) -> list[str]:
        """The cell's Jupyter tags."""
        return self.options.get("tags", [])


@dataclass(frozen=True)
class LabSource:
    """A lab's text source, read but not yet checked."""

    path: Path
    header: dict[str, Any]
    cells: list[Cell]
    preamble: list[int]
    """Numbers of non-blank lines between the header and the first ``# %%``; there should be none."""

    @property
    def lab(self) -> str:
        """Name of the lab's folder, which is nbgrader's assignment id."""
        return self.path.stem

    @cached_property
    def lines(self) -> list[str]:
        """The file, line by line."""
        return self.path.read_text(encoding="utf-8").splitlines()

    @property
    def points(self) -> float:
        """Sum of the points of all checks."""
        return sum(cell.options["points"] for cell in self.cells if "check" in cell.options)


def read_source(path: Path) -> LabSource:
    """Read the text source of one lab.

    Raises:
        OSError: the file can't be read.
        UnicodeDecodeError: the file isn't UTF-8.
    """
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    notebook = jupytext.reads(text, fmt="py:percent")
    starts = _marker_lines(lines)
    # Text above the first `# %%` becomes a cell without a marker; the rules report it, it isn't wanted here.
    cells = notebook.cells[len(notebook.cells) - len(starts) :]
    for cell in cells:
        cell.metadata.pop("lines_to_next_cell", None)  # jupytext's note to itself about blank lines
    ends = [*starts[1:], len(lines) + 1]
    return LabSource(
        path=path,
        header=dict(notebook.metadata.get("techlabs") or {}),
        cells=[
            Cell(
                start,
                cell.cell_type,
                dict(cell.metadata),
                cell.source,
                list(enumerate(lines[start : end - 1], start + 1)),
            )
            for start, end, cell in zip(starts, ends, cells, strict=True)
        ],
        preamble=_text_above(lines, starts[0] if starts else len(lines) + 1),
    )


def _marker_lines(lines: list[str]) -> list[int]:
    """Numbers of the lines that jupytext takes for the start of a cell.

    Only jupytext knows which `# %%` stand in a string or a fenced block: each gets its number as an option,
    and what comes back as metadata is a cell.
    """
    numbered = [
        f"{line} techlabs_line={number}" if _MARKER.match(line) else line
        for number, line in enumerate(lines, 1)
    ]
    cells = jupytext.reads("\n".join(numbered), fmt="py:percent").cells
    # Behind options in JSON it isn't an option of its own, but still there.
    found = [re.search(r"techlabs_line\D+(\d+)", str(cell.metadata)) for cell in cells]
    return [int(match[1]) for match in found if match]


def _text_above(lines: list[str], first: int) -> list[int]:
    fences = [number for number, line in enumerate(lines, 1) if line.rstrip() == "# ---"][:2]
    begin = fences[1] if len(fences) == 2 and fences[1] < first else 0
    return [number for number in range(begin + 1, first) if lines[number - 1].strip()]


def to_notebook(lab: LabSource) -> NotebookNode:
    """The nbgrader source notebook of a lab that passed the rules, with solutions and stored outputs."""
    notebook = nbformat.v4.new_notebook(
        metadata={
            "kernelspec": dict(KERNELSPEC),
            "language_info": {"name": "python"},
            "techlabs": {key: lab.header[key] for key in HEADER_KEYS},
        }
    )
    for cell, cell_id in zip(lab.cells, cell_ids(lab.cells), strict=True):
        node = {"code": _code_cell, "markdown": _text_cell, "raw": _text_cell}[cell.kind](cell, lab)
        node.id = cell_id
        if cell.tags:
            node.metadata["tags"] = list(cell.tags)
        if cell.grade_id:
            node.metadata["nbgrader"] = nbgrader_metadata(cell)
        notebook.cells.append(node)
    return notebook


def cell_ids(cells: list[Cell]) -> list[str]:
    """Ids as stable as the graded cells: the grade_id, elsewhere the grade_id above and a count."""
    ids = []
    above, count = "top", 0
    for cell in cells:
        if cell.grade_id:
            above, count = cell.grade_id, 0
            ids.append(above)
        else:
            count += 1
            ids.append(f"{above}-{count}")
    return ids


def nbgrader_metadata(cell: Cell) -> dict[str, Any]:
    """nbgrader's schema-3 metadata of an answer or a check."""
    is_check = "check" in cell.options
    metadata = {
        "grade": is_check,
        "grade_id": cell.grade_id,
        "locked": is_check,
        "schema_version": 3,
        "solution": not is_check,
        "task": False,
    }
    if is_check:
        metadata["points"] = cell.options["points"]
    return metadata


def stored_output(cell: Cell) -> list[str]:
    """The trailing ``# > text`` lines of a cell, without their mark."""
    lines = cell.source.splitlines()
    first = len(lines)
    while first and lines[first - 1].startswith(OUTPUT_MARK):
        first -= 1
    return [line.removeprefix(OUTPUT_MARK).removeprefix(" ") for line in lines[first:]]


def _code_cell(cell: Cell, _lab: LabSource) -> NotebookNode:
    output = stored_output(cell) if OUTPUT_TAG in cell.tags else []
    if not output:
        return nbformat.v4.new_code_cell(cell.source)
    source = "\n".join(cell.source.splitlines()[: -len(output)]).rstrip()
    text = "".join(f"{line}\n" for line in output)
    stdout = nbformat.v4.new_output("stream", name="stdout", text=text)
    # nbval compares outputs of cells that have run, so the cell says that it has.
    return nbformat.v4.new_code_cell(source, execution_count=1, outputs=[stdout])


def _text_cell(cell: Cell, lab: LabSource) -> NotebookNode:
    if cell.kind == "raw":
        return nbformat.v4.new_raw_cell(cell.source)
    return nbformat.v4.new_markdown_cell(_FACTS.sub(lambda _: facts_table(lab), cell.source))


def facts_table(lab: LabSource) -> str:
    """A one-row Markdown table of what a learner wants to know before starting."""
    facts = {
        "Minutes": lab.header["minutes"],
        "Machine seconds": lab.header["machine_seconds"],
        "Device": lab.header["device"],
        "Prerequisites": lab.header["needs"],
        "Points": f"{lab.points:g}",
    }
    values = [str(value).replace("|", "\\|") for value in facts.values()]
    return "\n".join(f"| {' | '.join(row)} |" for row in (list(facts), ["---"] * len(facts), values))
