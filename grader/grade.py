"""Grade the collected submissions of a lab, each by itself: none can take another along."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbgrader.api import MissingEntry
from tqdm import tqdm

from grader.course import Course, CourseError, Marks, failure
from grader.intake import Refused, examine


@dataclass(frozen=True)
class Result:
    """What came of one submission."""

    student: str
    state: str
    """``graded``, ``graded earlier``, ``refused`` or ``failed``."""
    marks: Marks | None
    notes: list[str] = field(default_factory=list)
    """Why it was refused, what was repaired, what was stopped; one line each."""
    sound: bool = True
    """False when a person should look at the submission."""


def grade(course: Course, lab: str, students: Iterable[str] = (), force: bool = False) -> list[Result]:
    """Grade submissions that are new or newer than their marks, or all with ``force``.

    Raises:
        CourseError: the lab isn't in the gradebook, or there is no submission, or none by a student named.
    """
    _require_release(course, lab)
    collected = course.students(lab)
    if not collected:
        raise CourseError(f"no submissions of {lab} here; run `techlabs collect {lab}` first")
    chosen = sorted(set(students)) or collected
    unknown = [student for student in chosen if student not in collected]
    if unknown:
        raise CourseError(
            f"no submission of {lab} by {', '.join(unknown)} in {course.layout.course / 'submitted'}"
        )
    return [_grade_one(course, lab, student, force) for student in tqdm(chosen, desc=lab, unit="submission")]


def _require_release(course: Course, lab: str) -> None:
    with course.gradebook() as gradebook:
        try:
            gradebook.find_notebook(lab, lab)
        except MissingEntry:
            raise CourseError(f"{lab} is not in the gradebook; run `techlabs release {lab}` first") from None


def _grade_one(course: Course, lab: str, student: str, force: bool) -> Result:
    try:
        right_kernel = examine(course.submitted(lab, student), lab)
    except Refused as refusal:
        return Result(student, "refused", course.marks(lab, student), [str(refusal)], sound=False)
    path = course.autograded(lab, student)
    if force or not _is_current(course.submitted(lab, student), path, f"{lab}.ipynb"):
        with _kept(path) as restore:
            result = course.api.autograde(lab, student, force=True)
            if not result["success"]:
                restore()
                reason = f"nbgrader could not grade it ({failure(result)}); earlier marks stay"
                return Result(student, "failed", course.marks(lab, student), [reason], sound=False)
        state = "graded"
    else:
        state = "graded earlier"
    return Result(
        student, state, course.marks(lab, student), _notes(path / f"{lab}.ipynb"), sound=right_kernel
    )


def _is_current(submitted: Path, autograded: Path, name: str) -> bool:
    """Whether the marks belong to the submission as it lies there now."""
    old, new = autograded / name, submitted / name
    if not old.is_file() or old.stat().st_mtime < new.stat().st_mtime:
        return False
    stamps = [folder / "timestamp.txt" for folder in (submitted, autograded)]
    return len({stamp.read_bytes() if stamp.is_file() else b"" for stamp in stamps}) == 1


@contextmanager
def _kept(folder: Path) -> Iterator:
    """Keep a graded submission aside: nbgrader deletes it before it grades anew, and when it fails."""
    aside = folder.with_name(f".{folder.name}.before")
    shutil.rmtree(aside, ignore_errors=True)
    if folder.exists():
        shutil.copytree(folder, aside)

    def restore() -> None:
        if aside.exists():
            shutil.rmtree(folder, ignore_errors=True)
            aside.rename(folder)

    try:
        yield restore
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _notes(path: Path) -> list[str]:
    metadata = nbformat.read(path, as_version=4).metadata.get("techlabs", {})
    return [*metadata.get("repairs", []), *metadata.get("stops", [])]


def report(results: list[Result]) -> str:
    """A table of marks, and below it one line for each thing to know."""
    width = max([len("student"), *(len(result.student) for result in results)])
    lines = [f"{'student':<{width}}  {'marks':>6}  {'of':>5}  state"]
    for result in results:
        score, top = (
            (f"{result.marks.score:g}", f"{result.marks.max_score:g}") if result.marks else ("-", "-")
        )
        lines.append(f"{result.student:<{width}}  {score:>6}  {top:>5}  {result.state}")
    notes = [f"{result.student}: {note}" for result in results for note in result.notes]
    return "\n".join([*lines, "", *notes] if notes else lines)
