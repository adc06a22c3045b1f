"""From ``solutions/`` by nbgrader's generate_assignment to ``labs/``: checked first, then swapped in."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from traitlets.config import Config

from grader.committed import committed, files_below, in_git, on_disk
from grader.layout import Layout, load_config
from grader.rules import (
    BEGIN_HIDDEN,
    BEGIN_SOLUTION,
    NEAR_DELIMITER,
    REGIONS,
    Problem,
    SourceError,
    broken_rules,
)
from grader.source import LabSource, read_source, to_notebook

EXTRA_FOLDERS = ("figures", "data")
"""Folders of a lab that go to learners as they are; any other file of a solution folder stays there."""


class BuildError(Exception):
    """The labs can't be built, or what is committed isn't what the sources make."""


def build(layout: Layout, labs: Iterable[str] = ()) -> list[str]:
    """Build labs (by default all) into ``labs/`` and return one line for each thing done.

    Until every source has passed its rules and every release its leak check, nothing in ``labs/`` changes. A
    notebook there that someone has worked in is kept in the course folder.

    Raises:
        SourceError: sources break rules; all are named.
        BuildError: an unknown lab, or a release that would give away a solution or a hidden test.
    """
    labs = list(labs)
    names = chosen_labs(layout, labs)
    layout.scratch.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=layout.scratch, prefix="release-") as scratch:
        source, release = Path(scratch, "source"), Path(scratch, "release")
        generate(layout, names, source, release)
        done = []
        for name in names:
            done += _keep_edited(layout, name, release / name / f"{name}.ipynb")
            _replace_folder(source / name, layout.source / name)
            _replace_folder(release / name, layout.released / name)
            _install(release / name, layout.labs / name)
            done.append(f"built labs/{name}")
    return done if labs else [*done, *_drop_others(layout, names)]


def differences(layout: Layout, labs: Iterable[str] = ()) -> list[str]:
    """Files below ``labs/`` that differ from what the sources make, each with what is wrong with it.

    In a git work tree git's index counts, so a learner's edits don't matter; elsewhere the files on disk do.

    Raises:
        SourceError, BuildError: as for `build`.
    """
    labs = list(labs)
    names = chosen_labs(layout, labs)
    layout.scratch.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=layout.scratch, prefix="check-") as scratch:
        source, release = Path(scratch, "source"), Path(scratch, "release")
        generate(layout, names, source, release)
        made = {path: (release / path).read_bytes() for path in files_below(release)}
    kept = committed(layout.root) if in_git(layout.root) else on_disk(layout.labs, EXTRA_FOLDERS)
    if labs:
        kept = {path: data for path, data in kept.items() if path.split("/")[0] in names}
    lines = []
    for path in sorted(set(made) | set(kept)):
        if path not in kept:
            lines.append(f"labs/{path}: missing")
        elif path not in made:
            lines.append(f"labs/{path}: not made by any source")
        elif made[path] != kept[path]:
            lines.append(f"labs/{path}: differs from solutions/{path.split('/')[0]}")
    return lines


def generate(layout: Layout, names: list[str], source: Path, release: Path) -> None:
    """Write source notebooks into ``source`` and learners' into ``release``, without a gradebook."""
    sources = _read_sources(layout, names)
    for lab in sources:
        write_notebook(to_notebook(lab), source / lab.lab / f"{lab.lab}.ipynb")
        for folder in EXTRA_FOLDERS:
            if (lab.path.parent / folder).is_dir():
                shutil.copytree(lab.path.parent / folder, source / lab.lab / folder)
    config = load_config(layout)
    config.CourseDirectory.update(source_directory=str(source), release_directory=str(release))
    # nbgrader's own `--no-db`: a build needs no gradebook.
    config.SaveCells.enabled = False
    config.GenerateAssignment.no_database = True
    for lab in sources:
        _release(lab, config, source, release)


def _read_sources(layout: Layout, names: list[str]) -> list[LabSource]:
    sources, problems = [], []
    for name in names:
        path = layout.solutions / name / f"{name}.py"
        shown = _relative(path, layout.root)
        try:
            sources.append(read_source(path))
        except UnicodeDecodeError as error:
            problems.append(Problem(shown, 1, f"not UTF-8 ({error.reason} at byte {error.start})"))
        else:
            problems += [Problem(shown, line, rule) for line, rule in broken_rules(sources[-1])]
    if problems:
        raise SourceError(problems)
    return sources


def _release(lab: LabSource, config: Config, source: Path, release: Path) -> None:
    course = CourseDirectory(config=config, assignment_id=lab.lab)
    GenerateAssignment(coursedir=course, config=config).start()
    path = release / lab.lab / f"{lab.lab}.ipynb"
    released = nbformat.read(path, as_version=4)
    write_notebook(released, path)
    found = leaks(nbformat.read(source / lab.lab / path.name, as_version=4), released)
    if found:
        lines = "\n".join(f"  {line}" for line in found)
        raise BuildError(
            f"{lab.lab}: the learner's notebook would give away:\n{lines}\nlabs/ was left as it is"
        )


def write_notebook(notebook: NotebookNode, path: Path) -> None:
    """Write a notebook in one fixed form: sorted keys, indent 1, a newline at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(notebook).rstrip("\n") + "\n", encoding="utf-8")


def leaks(source: NotebookNode, released: NotebookNode) -> list[str]:
    """Lines of the released notebook that only a solution or hidden test holds, and delimiters left over."""
    secret: set[str] = set()
    public: set[str] = set()
    for cell in source.cells:
        hidden = False
        for line in map(str.strip, cell.source.splitlines()):
            if line in (BEGIN_SOLUTION, BEGIN_HIDDEN):
                hidden = True
            elif line in REGIONS.values():
                hidden = False
            elif line:
                (secret if hidden else public).add(line)
    lines = [line.strip() for cell in released.cells for line in cell.source.splitlines()]
    return [line for line in lines if line in secret - public or NEAR_DELIMITER.search(line)]


def lab_names(layout: Layout) -> list[str]:
    """Names of all labs that have a source."""
    return sorted(
        path.parent.name for path in layout.solutions.glob("*/*.py") if path.stem == path.parent.name
    )


def chosen_labs(layout: Layout, labs: list[str]) -> list[str]:
    """The named labs, or all, in order.

    Raises:
        BuildError: there is no such lab, or no lab at all.
    """
    known = lab_names(layout)
    folders = [
        path.name for path in layout.solutions.glob("*") if path.is_dir() and re.match(r"\d\d_", path.name)
    ]
    labs = labs or sorted(folders)
    if not labs:
        raise BuildError(f"no labs in {layout.solutions}; a lab is solutions/NN_name/NN_name.py")
    unknown = [lab for lab in labs if lab not in known]
    if unknown:
        raise BuildError(
            f"no lab source solutions/{unknown[0]}/{unknown[0]}.py; there is {', '.join(known) or 'none'}"
        )
    return sorted(set(labs))


def _relative(path: Path, root: Path) -> Path:
    return path.relative_to(root) if path.is_relative_to(root) else path


def _replace_folder(new: Path, old: Path) -> None:
    shutil.rmtree(old, ignore_errors=True)
    old.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(new, old)


def _install(new: Path, old: Path) -> None:
    """Bring a release into ``labs/``, file by file and each in one step; other files of the folder stay."""
    files = files_below(new)
    for path in files:
        target = old / path
        target.parent.mkdir(parents=True, exist_ok=True)
        (new / path).replace(target)
    for folder in EXTRA_FOLDERS:
        for path in files_below(old / folder):
            if f"{folder}/{path}" not in files:
                (old / folder / path).unlink()


def _keep_edited(layout: Layout, name: str, new: Path | None) -> list[str]:
    """Keep a notebook in ``labs/`` that neither a build nor git can bring back."""
    path = layout.labs / name / f"{name}.ipynb"
    if not path.is_file():
        return []
    known = {
        file.read_bytes() for file in (new, layout.released / name / path.name) if file and file.is_file()
    }
    if in_git(layout.root):
        known.add(committed(layout.root).get(f"{name}/{path.name}", b""))
    if path.read_bytes() in known:
        return []
    kept = layout.course / "edited" / f"{name}.{time.strftime('%Y%m%d-%H%M%S')}.ipynb"
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, kept)
    return [f"labs/{name}/{path.name} had been edited; it is kept as {_relative(kept, layout.root)}"]


def _drop_others(layout: Layout, names: list[str]) -> list[str]:
    """Remove labs that have no source any more."""
    done = []
    for folder in sorted(layout.labs.iterdir()):
        if folder.name not in names and (folder / f"{folder.name}.ipynb").is_file():
            done += _keep_edited(layout, folder.name, None)
            for parent in (layout.labs, layout.source, layout.released):
                shutil.rmtree(parent / folder.name, ignore_errors=True)
            done.append(f"removed labs/{folder.name}, which has no source")
    return done
