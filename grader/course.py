"""One run of the course, through nbgrader's Python API: release, submit, collect, feedback, export."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.apps import NbGraderAPI
from nbgrader.plugins import CsvExportPlugin
from nbgrader.utils import capture_log
from traitlets.config import Config

from grader.build import build, chosen_labs, generate
from grader.layout import Layout, load_config


class CourseError(Exception):
    """nbgrader could not do what was asked; the message says why, and what to do next."""


@dataclass(frozen=True)
class Marks:
    """Marks of one submission, from the gradebook."""

    score: float
    max_score: float


class Course:
    """nbgrader set up for one layout."""

    def __init__(self, layout: Layout | None = None, config: Config | None = None) -> None:
        self.layout = layout or Layout.find()
        self.config = config or load_config(self.layout)
        # nbgrader makes a new gradebook with the command `alembic`, which lies beside this Python.
        beside = str(Path(sys.executable).parent)
        if beside not in os.environ["PATH"].split(os.pathsep):
            os.environ["PATH"] = beside + os.pathsep + os.environ["PATH"]

    @cached_property
    def api(self) -> NbGraderAPI:
        """nbgrader's own API."""
        return NbGraderAPI(config=self.config)

    @contextmanager
    def gradebook(self) -> Iterator[Gradebook]:
        """nbgrader's gradebook, closed afterwards."""
        with self.api.gradebook as gradebook:
            yield gradebook

    def release(self, lab: str) -> list[str]:
        """Build a lab, enter it in the gradebook and put it into the exchange.

        Returns:
            One line for each thing done or to be done.

        Raises:
            SourceError, BuildError: as for `grader.build.build`.
            CourseError: nbgrader refuses; gradebook, labs/ and exchange are as they were.
        """
        chosen_labs(self.layout, [lab])
        before = self._points(lab)
        self._register(lab)
        done = build(self.layout, [lab])
        config = deepcopy(self.config)
        # What lies in the exchange is a copy of labs/; releasing again renews it.
        config.ExchangeReleaseAssignment.force = True
        _checked(NbGraderAPI(config=config).release_assignment(lab), f"{lab} was not released")
        after = self._points(lab)
        changed = [name for name in after if before and before.get(name) != after[name]]
        if changed:
            done.append(
                f"points of {', '.join(changed)} changed: `techlabs grade {lab} --force` renews the marks"
            )
        return [*done, f"released {lab} to {self.layout.exchange}"]

    def _points(self, lab: str) -> dict[str, float]:
        with self.gradebook() as gradebook:
            try:
                return {cell.name: cell.max_score for cell in gradebook.find_notebook(lab, lab).grade_cells}
            except MissingEntry:
                return {}

    def _register(self, lab: str) -> None:
        """Enter a lab in the gradebook.

        nbgrader deletes the release folder when it refuses, so it writes into scratch and never into labs/.
        """
        self.layout.scratch.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.layout.scratch, prefix="register-") as scratch:
            source = Path(scratch, "source")
            generate(self.layout, [lab], source, Path(scratch, "checked"))
            config = deepcopy(self.config)
            config.CourseDirectory.source_directory = str(source)
            config.CourseDirectory.release_directory = str(Path(scratch, "release"))
            result = NbGraderAPI(config=config).generate_assignment(lab)
            if "Cannot add or remove cells" in result.get("error", "") + result.get("log", ""):
                raise CourseError(
                    f"{lab}: answers or checks were added, removed or renamed, but {self.layout.course} "
                    "has submissions with the old ones. Keep the old ids, or start a new course in another "
                    "folder by setting TECHLABS_COURSE"
                )
            _checked(result, f"{lab} was not entered in the gradebook")

    def submit(self, lab: str, student: str | None = None, folder: Path | None = None) -> str:
        """Hand in the lab from labs/, or from a folder like it, and return the student's name.

        Raises:
            CourseError: no such notebook, a lab never released, or a name that can't be a folder's.
        """
        if student and not re.fullmatch(r"[^./+*][^/+*]*", student):
            raise CourseError(f"student {student!r}: a name has no / + or * and doesn't start with a dot")
        folder = folder or self.layout.labs
        if not (folder / lab / f"{lab}.ipynb").is_file():
            found = ", ".join(path.name for path in sorted((folder / lab).glob("*.ipynb"))) or "no notebook"
            raise CourseError(
                f"{folder / lab} holds {found}; the notebook to submit must be called {lab}.ipynb"
            )
        config = deepcopy(self.config)
        config.Exchange.assignment_dir = str(folder)
        config.CourseDirectory.assignment_id = lab
        if student:
            config.CourseDirectory.student_id = student
        api = NbGraderAPI(config=config)
        app = api.exchange.Submit(coursedir=api.coursedir, authenticator=api.authenticator, parent=api)
        _checked(capture_log(app), f"{lab} was not submitted; was it released (`techlabs release {lab}`)?")
        return app.assignment_filename.split("+")[0]

    def collect(self, lab: str) -> list[str]:
        """Fetch submissions from the exchange, newer over older, and return the names of those that came.

        Raises:
            CourseError: nbgrader refuses.
        """
        before = self._timestamps(lab)
        _checked(self.api.collect(lab, update=True), f"{lab} was not collected")
        after = self._timestamps(lab)
        return [student for student in after if before.get(student) != after[student]]

    def _timestamps(self, lab: str) -> dict[str, bytes]:
        paths = {student: self.submitted(lab, student) / "timestamp.txt" for student in self.students(lab)}
        return {student: path.read_bytes() if path.is_file() else b"" for student, path in paths.items()}

    def students(self, lab: str) -> list[str]:
        """Names of those who have a collected submission of a lab."""
        return sorted(self.api.get_submitted_students(lab))

    def submitted(self, lab: str, student: str) -> Path:
        """Folder of a collected submission."""
        return self.layout.course / "submitted" / student / lab

    def autograded(self, lab: str, student: str) -> Path:
        """Folder of a graded submission."""
        return self.layout.course / "autograded" / student / lab

    def marks(self, lab: str, student: str) -> Marks | None:
        """Marks in the gradebook, None when the submission was never graded."""
        with self.gradebook() as gradebook:
            try:
                submission = gradebook.find_submission(lab, student)
            except MissingEntry:
                return None
            return Marks(submission.score, submission.max_score)

    def feedback(self, lab: str) -> Iterator[tuple[str, str | None]]:
        """Make and release feedback for each graded submission; yields the student and a problem or None."""
        for folder in sorted((self.layout.course / "autograded").glob(f"*/{lab}")):
            student = folder.parent.name
            result = self.api.generate_feedback(lab, student, force=True)
            if not result["success"]:
                yield student, f"no feedback: {failure(result)}"
            elif not (folder / "submission_secret.txt").is_file():
                own = self.layout.course / "feedback" / student / lab
                yield student, f"feedback lies in {own} only; the submission didn't come through the exchange"
            else:
                result = self.api.release_feedback(lab, student)
                yield student, None if result["success"] else f"feedback not released: {failure(result)}"

    def export(self, path: Path) -> None:
        """Write all marks as nbgrader's CSV.

        Raises:
            OSError: the file can't be written.
        """
        with self.gradebook() as gradebook:
            CsvExportPlugin(parent=self.api, to=str(path)).export(gradebook)


def _checked(result: dict[str, Any], what: str) -> None:
    if not result["success"]:
        raise CourseError(f"{what}: {failure(result)}")


def failure(result: dict[str, Any]) -> str:
    """The one line of nbgrader's log and traceback that says what happened."""
    text = f"{result.get('log', '')}\n{result.get('error', '')}"
    errors = re.findall(r"^ *([\w.]*(?:Error|Exception|Entry): .+)$", text, re.MULTILINE)
    # nbgrader ends with an exception that only points at the one before it.
    own = [line for line in errors if "see the" not in line]
    return (own or errors or ["see nbgrader's log"])[-1].strip()
