"""What is looked at before a submission is graded: whether there is a notebook that can be."""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any, TextIO

import nbformat
from nbconvert.exporters import NotebookExporter
from nbgrader.utils import parse_utc

from grader.repair import kernel_name
from grader.source import KERNELSPEC


class SubmissionExporter(NotebookExporter):
    """Reads a notebook that has a byte-order mark too, and keeps nbformat's advice out of the terminal."""

    def from_file(self, file_stream: TextIO, resources: dict[str, Any] | None = None, **kwargs: Any) -> Any:
        """As in nbconvert."""
        text = file_stream.read().removeprefix("\ufeff")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return super().from_file(io.StringIO(text), resources, **kwargs)


class Refused(Exception):
    """A submission that can't be graded; the message says what it is, why, and what to do."""


def examine(folder: Path, lab: str) -> bool:
    """Look at one collected submission and return whether its kernel is the lab's. Nothing is changed.

    Raises:
        Refused: there is no notebook here that can be graded.
    """
    _check_timestamp(folder / "timestamp.txt")
    path = folder / f"{lab}.ipynb"
    if not path.is_file():
        raise Refused(_missing(folder, path.name))
    notebook = _parse(path)
    if not any(_grade_id(cell) for cell in notebook["cells"]):
        raise Refused(
            f"{path.name} has no nbgrader metadata in any cell, so its answers can't be told apart; "
            f"ask for the answers in a fresh copy of the lab"
        )
    return kernel_name(notebook["metadata"]) == KERNELSPEC["name"]


def _check_timestamp(path: Path) -> None:
    try:
        if path.is_file():
            parse_utc(path.read_text(encoding="utf-8").strip())
    except (ValueError, OverflowError, UnicodeDecodeError):
        raise Refused("timestamp.txt holds no date; correct or delete it, then grade again") from None


def _missing(folder: Path, name: str) -> str:
    others = sorted(path.name for path in folder.glob("*.ipynb"))
    if not others:
        return f"there is no {name}; ask for a new submission"
    return f"the notebook is called {', '.join(others)}, not {name}; rename it in {folder}, then grade again"


def _parse(path: Path) -> dict[str, Any]:
    """The notebook as JSON, with the shape that nbgrader's steps rely on."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        if not text.strip():
            raise Refused(f"{path.name} is empty; ask for a new submission")
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path.name} is not JSON ({error}); ask for a new submission") from None
    if not isinstance(notebook, dict) or "nbformat" not in notebook:
        raise Refused(f"{path.name} is JSON but not a notebook; ask for a new submission")
    if notebook["nbformat"] != nbformat.current_nbformat:
        raise Refused(
            f"{path.name} is in notebook format {notebook['nbformat']!r}, labs are in format "
            f"{nbformat.current_nbformat}; ask the learner to open and save it in JupyterLab"
        )
    if not _is_well_formed(notebook):
        raise Refused(f"{path.name} is not a whole notebook, its cells are damaged; ask for a new submission")
    return notebook


def _is_well_formed(notebook: dict[str, Any]) -> bool:
    cells = notebook.get("cells")
    return (
        isinstance(notebook.get("metadata"), dict)
        and isinstance(notebook.get("nbformat_minor"), int)
        and isinstance(cells, list)
        and all(isinstance(cell, dict) and _is_cell(cell) for cell in cells)
    )


def _is_cell(cell: dict[str, Any]) -> bool:
    source, outputs = cell.get("source"), cell.get("outputs", [])
    lines = source if isinstance(source, list) else [source]
    return (
        cell.get("cell_type") in ("code", "markdown", "raw")
        and isinstance(cell.get("metadata"), dict)
        and isinstance(cell.get("id", ""), str)
        and all(isinstance(line, str) for line in lines)
        and isinstance(outputs, list)
        and all(isinstance(output, dict) for output in outputs)
    )


def _grade_id(cell: dict[str, Any]) -> object:
    metadata = cell["metadata"].get("nbgrader")
    return metadata.get("grade_id") if isinstance(metadata, dict) else None
