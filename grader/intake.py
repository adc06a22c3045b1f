"""From what lies in a submission's folder to a notebook that nbgrader can work with.

The folder stays as it is. Only what grading needs is taken over, each piece after a look at its kind, so that
nothing which comes after meets a cell, a field or a byte that isn't what it should be.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import nbformat
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.utils import parse_utc

from grader.repair import kernel_name

MAX_BYTES = 100_000_000
MAX_CELLS = 1000


class SubmissionExporter(NotebookExporter):
    """Reads a notebook that has a byte-order mark too, and keeps nbformat's advice out of the terminal."""

    def from_file(self, file_stream: TextIO, resources: dict[str, Any] | None = None, **kwargs: Any) -> Any:
        """As in nbconvert."""
        text = file_stream.read().removeprefix("\ufeff")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return super().from_file(io.StringIO(text), resources, **kwargs)


class Refused(Exception):
    """There is no notebook here that can be graded; the message says what it is, why, and what to do."""


@dataclass(frozen=True)
class Intake:
    """A submission, ready to be graded."""

    notebook: NotebookNode
    notes: list[str] = field(default_factory=list)
    """What was done to it, one line each."""


def digest(folder: Path) -> str:
    """A text that changes when a submission's notebooks or its date do.

    Raises:
        OSError: the folder can't be read.
    """
    found = hashlib.sha256()
    for path in sorted([*folder.glob("*.ipynb"), folder / "timestamp.txt"]):
        if path.is_file():
            found.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def take_in(folder: Path, lab: str) -> Intake:
    """Read one collected submission. Nothing there is changed.

    Raises:
        Refused: there is no notebook here that can be graded.
        OSError: the folder can't be read.
    """
    notes = [] if has_date(folder) else ["timestamp.txt holds no date; graded as handed in without one"]
    path = _notebook_of(folder, lab)
    if path.name != f"{lab}.ipynb":
        notes.append(f"the notebook is called {path.name!r}; its content says that it is {lab}.ipynb")
    raw = _upgraded(_parse(path), path.name, notes)
    cells = raw["cells"]
    if len(cells) > MAX_CELLS:
        notes.append(f"{len(cells)} cells; the first {MAX_CELLS} were looked at")
    metadata = _mapping(raw.get("metadata"))
    notebook = nbformat.v4.new_notebook()
    notebook.nbformat_minor = 5
    kernel = kernel_name(metadata)
    if isinstance(kernel, str):
        notebook.metadata["kernelspec"] = {"name": kernel, "display_name": kernel}
    ids: set[str] = set()
    for number, cell in enumerate(cells[:MAX_CELLS], 1):
        taken = _cell(cell, number)
        if taken is None:
            notes.append(f"cell {number} is damaged; left out")
        else:
            taken.id = f"submitted-{number}" if taken.id in ids else taken.id
            ids.add(taken.id)
            notebook.cells.append(taken)
    return Intake(notebook, notes)


def has_date(folder: Path) -> bool:
    """Whether a submission's date can be read, or it has none."""
    path = folder / "timestamp.txt"
    try:
        if path.is_file():
            parse_utc(path.read_text(encoding="utf-8").strip())
    except (ValueError, OverflowError):
        return False
    return True


def copy_files(source: Path, target: Path, with_date: bool) -> None:
    """Copy what lies beside the notebooks. Links don't come along: they could lead anywhere."""
    for folder, folders, files in os.walk(source):
        here = target / Path(folder).relative_to(source)
        folders[:] = [name for name in folders if not Path(folder, name).is_symlink()]
        for name in folders:
            (here / name).mkdir()
        for path in (Path(folder, name) for name in files):
            skipped = path.suffix == ".ipynb" or (path.name == "timestamp.txt" and not with_date)
            if not skipped and path.is_file() and not path.is_symlink():
                shutil.copyfile(path, here / path.name)


def _notebook_of(folder: Path, lab: str) -> Path:
    """The lab's notebook, or the only one whose content says that it's this lab."""
    path = folder / f"{lab}.ipynb"
    if path.is_file():
        return path
    others = sorted(each for each in folder.glob("*.ipynb") if each.is_file())
    if not others:
        raise Refused(f"there is no {path.name}; ask for a new submission")
    same = [each for each in others if _is_of(each, lab)]
    if len(same) != 1:
        names = ", ".join(each.name for each in same or others)
        why = "more than one could be it" if same else "none says that it is this lab"
        raise Refused(
            f"there is no {path.name} but {names}, and {why}; rename the right one in {folder}, then grade "
            "again"
        )
    return same[0]


def _is_of(path: Path, lab: str) -> bool:
    try:
        own = _mapping(_mapping(_parse(path).get("metadata")).get("techlabs"))
    except Refused:
        return False
    return own.get("name") == lab.split("_", 1)[-1]


def _parse(path: Path) -> dict[str, Any]:
    """The notebook as JSON."""
    if path.stat().st_size > MAX_BYTES:
        raise Refused(
            f"{path.name} has {path.stat().st_size / 1e6:.0f} MB, at most {MAX_BYTES / 1e6:.0f} are read; "
            "ask for it with its outputs cleared"
        )
    try:
        text = path.read_bytes().decode("utf-8-sig")
        if not text.strip():
            raise Refused(f"{path.name} is empty; ask for a new submission")
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path.name} is not JSON ({_first_line(error)}); ask for a new submission") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("nbformat"), int):
        raise Refused(f"{path.name} is JSON but not a notebook; ask for a new submission")
    return notebook


def _upgraded(raw: dict[str, Any], name: str, notes: list[str]) -> dict[str, Any]:
    """The notebook in the labs' format, brought there by nbformat if it is older."""
    version = raw["nbformat"]
    if version > nbformat.current_nbformat:
        raise Refused(
            f"{name} is in notebook format {version}, labs are in format {nbformat.current_nbformat}; "
            "ask the learner to open and save it in JupyterLab"
        )
    if version < nbformat.current_nbformat:
        try:
            raw = nbformat.convert(nbformat.from_dict(raw), nbformat.current_nbformat)
        except Exception as error:
            raise Refused(
                f"{name} is in notebook format {version} and damaged ({_first_line(error)}); "
                "ask the learner to open and save it in JupyterLab"
            ) from None
        notes.append(f"notebook format {version} brought up to {nbformat.current_nbformat}")
    if not isinstance(raw.get("cells"), list):
        raise Refused(f"{name} is JSON but not a notebook; ask for a new submission")
    return raw


def _cell(raw: Any, number: int) -> NotebookNode | None:
    """What grading needs of a cell, None when it has no readable source."""
    if not isinstance(raw, dict) or raw.get("cell_type") not in ("code", "markdown", "raw"):
        return None
    source = raw.get("source")
    lines = source if isinstance(source, list) else [source]
    if not all(isinstance(line, str) for line in lines):
        return None
    # Half a character, as a broken editor leaves it, can't be written to a file.
    text = "".join(lines).encode("utf-8", "replace").decode("utf-8")
    make = {"code": "new_code_cell", "markdown": "new_markdown_cell", "raw": "new_raw_cell"}[raw["cell_type"]]
    cell = getattr(nbformat.v4, make)(text)
    own_id = raw.get("id")
    valid = isinstance(own_id, str) and own_id.isascii() and own_id.replace("-", "_").isidentifier()
    cell.id = own_id if valid and len(own_id) <= 64 else f"submitted-{number}"
    metadata = _mapping(raw.get("metadata"))
    if "nbgrader" in metadata:
        given = _mapping(metadata["nbgrader"])
        cell.metadata["nbgrader"] = {
            key: value
            for key, value in given.items()
            if isinstance(value, str | int | float) and len(key) < 64
        }
    if isinstance(metadata.get("tags"), list):
        cell.metadata["tags"] = [tag for tag in metadata["tags"] if isinstance(tag, str)]
    return cell


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:120]
