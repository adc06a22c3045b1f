"""Grade the collected submissions of a lab, each by itself: none can take another along."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import MissingEntry
from nbgrader.apps import NbGraderAPI
from tqdm import tqdm

from grader import sandbox
from grader.build import write_notebook
from grader.course import Course, CourseError, Marks, failure
from grader.intake import Intake, Refused, copy_files, digest, has_date, take_in
from grader.judge import Judge, JudgeError
from grader.workers import each


@dataclass(frozen=True)
class Result:
    """What came of one submission."""

    student: str
    state: str
    """``graded``, ``graded earlier``, ``held``, ``refused`` or ``failed``."""
    marks: Marks | None
    notes: list[str] = field(default_factory=list)
    """Why it was refused, what was repaired, what was stopped; one line each."""
    sound: bool = True
    """False when a person should look at the submission."""


def grade(
    course: Course, lab: str, students: Iterable[str] = (), force: bool = False, jobs: int = 1
) -> list[Result]:
    """Grade submissions that are new or newer than their marks, or all with ``force``, ``jobs`` at a time.

    A run that was cut short is finished by the next one.

    Raises:
        CourseError: the lab isn't in the gradebook or can't be judged, there is no box to run submissions in,
            there is no submission, or none by a student named.
    """
    _require_release(course, lab)
    try:
        Judge(course.layout.root, lab)
        if not course.config.ExecuteSubmission.get("unsafe", False):
            sandbox.require()
    except (JudgeError, sandbox.NoBox) as error:
        raise CourseError(str(error)) from None
    collected = course.students(lab)
    if not collected:
        raise CourseError(f"no submissions of {lab} here; run `techlabs collect {lab}` first")
    chosen = sorted(set(students)) or collected
    unknown = [student for student in chosen if student not in collected]
    if unknown:
        raise CourseError(
            f"no submission of {lab} by {', '.join(unknown)} in {course.layout.course / 'submitted'}"
        )
    done = each(partial(_grade_one, course, lab, force=force), chosen, jobs)
    bar = tqdm(done, desc=lab, unit="submission", total=len(chosen))
    results = {student: result or _died(course, lab, student) for student, result in bar}
    return [results[student] for student in chosen]


def _died(course: Course, lab: str, student: str) -> Result:
    reason = "the process that graded it died; grade again"
    return Result(student, "failed", course.marks(lab, student), [reason], sound=False)


def _require_release(course: Course, lab: str) -> None:
    with course.gradebook() as gradebook:
        try:
            gradebook.find_notebook(lab, lab)
        except MissingEntry:
            raise CourseError(f"{lab} is not in the gradebook; run `techlabs release {lab}` first") from None


def _grade_one(course: Course, lab: str, student: str, force: bool) -> Result:
    folder, path = course.submitted(lab, student), course.autograded(lab, student) / f"{lab}.ipynb"
    said, stamp = _said(path), ""
    try:
        stamp = digest(folder)
        if not force and said.get("graded") == stamp:
            return _result(course, lab, student, earlier=True)
        intake = take_in(folder, lab)
        refusal = None
    except (Refused, OSError) as error:
        earlier = course.marks(lab, student)
        if earlier is not None and said.get("graded") and not said.get("refused"):
            return Result(student, "refused", earlier, [f"{error}; earlier marks stay"], sound=False)
        # It earns 0, with the reason, like a notebook without a single answer.
        refusal = str(error)
        intake = Intake(nbformat.v4.new_notebook())
    intake.notebook.metadata["techlabs"] = {
        "intake": {"notes": intake.notes, "digest": stamp, "refused": refusal}
    }
    with _staged(course, lab, student, intake) as api, _kept(path.parent) as restore:
        result = api.autograde(lab, student, force=True)
        if not result["success"]:
            restore()
            reason = f"nbgrader could not grade it ({failure(result)}); earlier marks stay"
            return Result(student, "failed", course.marks(lab, student), [reason], sound=False)
    return _result(course, lab, student)


def _result(course: Course, lab: str, student: str, earlier: bool = False) -> Result:
    """What the graded notebook tells."""
    said = _said(course.autograded(lab, student) / f"{lab}.ipynb")
    marks = course.marks(lab, student)
    if said.get("refused"):
        return Result(student, "refused", marks, [said["refused"]], sound=False)
    notes = [line for kind in ("holds", "repairs", "left_out", "stops") for line in said.get(kind, [])]
    if said.get("holds"):
        return Result(student, "held", marks, notes, sound=False)
    state = "graded earlier" if earlier else "graded"
    return Result(student, state, marks, notes, sound=not said.get("wrong_kernel", False))


def _said(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    return nbformat.read(path, as_version=4).metadata.get("techlabs", {})


@contextmanager
def _staged(course: Course, lab: str, student: str, intake: Intake) -> Iterator[NbGraderAPI]:
    """nbgrader's API on a copy of the submission that holds the notebook as taken in."""
    course.layout.course.joinpath("intake").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=course.layout.course / "intake") as staging:
        source, target = course.submitted(lab, student), Path(staging, student, lab)
        target.mkdir(parents=True)
        if os.access(source, os.R_OK | os.X_OK):
            copy_files(source, target, has_date(source))
        write_notebook(intake.notebook, target / f"{lab}.ipynb")
        config = deepcopy(course.config)
        config.CourseDirectory.submitted_directory = staging
        config.Repair.staged = True
        yield NbGraderAPI(config=config)


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
