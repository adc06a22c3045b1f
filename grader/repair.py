"""Put a damaged submission back into the shape of its lab before it is graded, and say what was done.

The gradebook holds the master of each answer and test. What marks depend on is taken from there; no code of a
learner is changed.
"""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell
from nbgrader.api import Gradebook
from nbgrader.api import Notebook as GradebookNotebook
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool

from grader.rules import BEGIN_HIDDEN, END_HIDDEN


@dataclass(frozen=True)
class MasterCell:
    """An answer or a test as it was released."""

    grade_id: str
    source: str
    checksum: str
    points: float | None
    """None for an answer."""

    @property
    def label(self) -> str:
        """How reports call it."""
        return f'{"answer" if self.points is None else "test"} "{self.grade_id}"'

    @property
    def released(self) -> str:
        """What a learner got: the source without hidden tests."""
        lines, hidden = [], False
        for line in self.source.splitlines():
            if line.strip() == BEGIN_HIDDEN:
                hidden = True
            elif line.strip() == END_HIDDEN:
                hidden = False
            elif not hidden:
                lines.append(line)
        return "\n".join(lines)

    def is_untouched(self, cell: NotebookNode) -> bool:
        """Whether a cell holds what was released, blanks at line ends aside."""
        return _plain(cell.source) in (_plain(self.released), _plain(self.source))

    @property
    def metadata(self) -> dict[str, Any]:
        """nbgrader's metadata of the cell."""
        is_test = self.points is not None
        metadata = {
            "cell_type": "code",
            "checksum": self.checksum,
            "grade": is_test,
            "grade_id": self.grade_id,
            "locked": is_test,
            "schema_version": 3,
            "solution": not is_test,
            "task": False,
        }
        return {**metadata, "points": self.points} if is_test else metadata


def _plain(source: str) -> str:
    return "\n".join(line.rstrip() for line in source.splitlines()).strip()


class Repair(NbGraderPreprocessor):
    """The first of nbgrader's sanitizing steps; those after it find nothing left to complain about."""

    staged = Bool(False, help="Whether `grader.intake` wrote the notebook, its notes included.").tag(
        config=True
    )

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Repair the notebook; ``techlabs.repairs`` in its metadata and a cell on top tell what was done."""
        where = resources["nbgrader"]
        with Gradebook(where["db_url"]) as gradebook:
            notebook = gradebook.find_notebook(where["notebook"], where["assignment"])
            master = _master(notebook)
            kernelspec = json.loads(notebook.kernelspec)
        # A submission doesn't bring its own report, nor widgets, whose saved state can break the feedback.
        intake = nb.metadata.get("techlabs", {}).get("intake", {}) if self.staged else {}
        wrong_kernel = kernel_name(nb.metadata) != kernelspec["name"]
        if intake.get("refused"):
            repair_cells(nb, master)
            nb.metadata["kernelspec"], repairs = kernelspec, [intake["refused"]]
        else:
            repairs = [
                *intake.get("notes", []),
                *_repair_kernel(nb, kernelspec),
                *repair_cells(nb, master),
            ]
        nb.metadata["techlabs"] = {
            "repairs": repairs,
            "digest": intake.get("digest"),
            "refused": intake.get("refused"),
            "wrong_kernel": wrong_kernel,
        }
        nb.metadata.pop("widgets", None)
        if repairs:
            lines = "\n".join(f"- {html.escape(line, quote=False)}" for line in repairs)
            nb.cells.insert(0, new_markdown_cell(f"**Repaired before grading**\n\n{lines}", id="repairs"))
        _set_ids(nb)
        return nb, resources


def _master(notebook: GradebookNotebook) -> list[MasterCell]:
    points = {cell.name: cell.max_score for cell in notebook.grade_cells}
    return [
        MasterCell(cell.name, cell.source, cell.checksum, points.get(cell.name))
        for cell in notebook.source_cells
    ]


def _repair_kernel(nb: NotebookNode, kernelspec: dict[str, str]) -> list[str]:
    name = kernel_name(nb.metadata)
    nb.metadata["kernelspec"] = kernelspec
    return [] if name == kernelspec["name"] else [f"kernel {_short(name)} put back to {kernelspec['name']!r}"]


def kernel_name(metadata: dict[str, Any]) -> object:
    """Name of the kernel that a notebook asks for, None when it asks for none."""
    kernelspec = metadata.get("kernelspec")
    return kernelspec.get("name") if isinstance(kernelspec, dict) else None


def repair_cells(nb: NotebookNode, master: list[MasterCell]) -> list[str]:
    """Bring the cells of a submission into the shape of the master; returns one line for each repair."""
    numbers = {id(cell): number for number, cell in enumerate(nb.cells, 1)}
    report = _strip_tags(nb)
    copies = _copies(nb, master, report)
    kept: list[NotebookNode] = []
    for cell in master:
        found = copies[cell.grade_id]
        if len(found) > 1:
            report.append(_drop_copies(nb, cell, found, kept, numbers))
        if found:
            report += _restore(found[0], cell)
            kept.append(found[0])
        elif cell.points is None:
            report.append(f"{cell.label} is missing; its test ran on what the other cells define")
        else:
            restored = new_code_cell(cell.source, metadata={"nbgrader": cell.metadata}, id=cell.grade_id)
            nb.cells.insert(_index(nb, kept[-1]) + 1 if kept else len(nb.cells), restored)
            kept.append(restored)
            report.append(f"{cell.label} was deleted; put back")
    return report


def _strip_tags(nb: NotebookNode) -> list[str]:
    """Remove all tags: some of them change how a cell is run, and none is needed in grading."""
    harmful = set()
    for cell in nb.cells:
        tags = cell.metadata.pop("tags", [])
        harmful |= {"skip-execution", "raises-exception"} & set(
            map(str, tags if isinstance(tags, list) else [tags])
        )
    return [f"tag {tag!r} removed; every cell was run" for tag in sorted(harmful)]


def _copies(nb: NotebookNode, master: list[MasterCell], report: list[str]) -> dict[str, list[NotebookNode]]:
    """The cells that claim each id. No other cell keeps nbgrader's metadata."""
    copies: dict[str, list[NotebookNode]] = {cell.grade_id: [] for cell in master}
    unmarked, unknown = [], {}
    for cell in nb.cells:
        metadata = cell.metadata.get("nbgrader")
        grade_id = metadata.get("grade_id") if isinstance(metadata, dict) else None
        if isinstance(grade_id, str) and grade_id in copies:
            copies[grade_id].append(cell)
            continue
        if grade_id is not None:
            unknown[id(cell)] = grade_id
        cell.metadata.pop("nbgrader", None)
        unmarked.append(cell)
    # The id that a lab gives a graded cell outlives lost or renamed metadata.
    for cell in unmarked:
        if copies.get(cell.get("id")) == []:
            copies[cell.id].append(cell)
            unknown.pop(id(cell), None)
    # And so does the text of a test.
    for cell in unmarked:
        for test in master:
            if test.points is not None and not copies[test.grade_id] and test.is_untouched(cell):
                copies[test.grade_id].append(cell)
                unknown.pop(id(cell), None)
    report += [f"cell with the unknown id {_short(grade_id)}: not graded" for grade_id in unknown.values()]
    return copies


def _drop_copies(
    nb: NotebookNode,
    master: MasterCell,
    found: list[NotebookNode],
    kept: list[NotebookNode],
    numbers: dict[int, int],
) -> str:
    """Leave one of several cells with one id in ``found``, and say which.

    Copies that hold nothing of the learner's own leave the notebook; edited ones run as ordinary cells, which
    matters where a cell was split in two.
    """
    chosen, why = _choose(nb, master, found, kept)
    for cell in found:
        if cell is chosen:
            continue
        cell.metadata.pop("nbgrader", None)
        if master.is_untouched(cell):
            del nb.cells[_index(nb, cell)]
    places = ", ".join(str(numbers[id(cell)]) for cell in found)
    found[:] = [chosen]
    return f"{master.label} stood in cells {places}; cell {numbers[id(chosen)]} counts, {why}"


def _choose(
    nb: NotebookNode, master: MasterCell, found: list[NotebookNode], kept: list[NotebookNode]
) -> tuple[NotebookNode, str]:
    if master.points is None:
        edited = [cell for cell in found if not master.is_untouched(cell)]
        return (
            (edited[-1], "the last one that was edited") if edited else (found[0], "the first of equal ones")
        )
    original = [cell for cell in found if master.is_untouched(cell)] or found
    below = [cell for cell in original if not kept or _index(nb, cell) > _index(nb, kept[-1])]
    return (below[0], "in its place below the answer") if below else (original[-1], "the last one")


def _restore(cell: NotebookNode, master: MasterCell) -> list[str]:
    """Give a cell the master's type, flags, points and, for a test, source."""
    changes = []
    submitted = cell.metadata.get("nbgrader")
    if not isinstance(submitted, dict):
        submitted = {}
        changes.append("lost nbgrader metadata")
    else:
        names = ("grade", "solution", "locked", "points")
        changes += [name for name in names if submitted.get(name) != master.metadata.get(name)]
    if cell.cell_type != "code":
        changes.append(f"cell type {cell.cell_type!r}")
        cell.cell_type = "code"
        cell.pop("attachments", None)
        cell.update(outputs=[], execution_count=None)
    if master.points is not None:
        if not master.is_untouched(cell):
            changes.append("edited source")
        cell.source = master.source
    cell.metadata["nbgrader"] = NotebookNode(master.metadata)
    return [f"{master.label}: {', '.join(changes)} put back"] if changes else []


def _set_ids(nb: NotebookNode) -> None:
    """Ids that the current notebook format asks for, each once."""
    nb.nbformat_minor = max(nb.nbformat_minor, 5)
    seen: set[str] = set()
    for number, cell in enumerate(nb.cells, 1):
        if cell.get("id") is None or cell.id in seen:
            cell.id = f"submitted-{number}"
        seen.add(cell.id)


def _index(nb: NotebookNode, cell: NotebookNode) -> int:
    return next(index for index, other in enumerate(nb.cells) if other is cell)


def _short(value: object) -> str:
    """A learner's value in a report: quoted, on one line, not too long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
