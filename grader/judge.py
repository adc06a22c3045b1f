"""The judge: it reads what a kernel says about an answer, and nothing a learner wrote ever runs beside it.

The hidden cases are read here, from the lab's folder under solutions/. The kernel learns one case at a time,
when it is asked what it sees of an answer on it.
"""

from __future__ import annotations

import importlib
import importlib.util
import runpy
from pathlib import Path
from types import ModuleType

from techlabs.exercise import Case, Exercise, Outcome, Verdict


class JudgeError(Exception):
    """A lab that can't be judged; the message says what is missing and where."""


class Judge:
    """The exercises of one lab with all their cases.

    Args:
        root: the course's root, which holds solutions/.
        lab: the lab's folder, for example "21_ipu_first".

    Raises:
        JudgeError: the lab's exercises or hidden cases aren't there.
    """

    def __init__(self, root: Path, lab: str) -> None:
        self.lab = lab
        module = _exercises(root, lab.split("_", 1)[-1])
        self._exercises: dict[str, Exercise] = {each.name: each for each in module.EXERCISES}
        hidden = root / "solutions" / lab / "hidden.py"
        if not hidden.is_file():
            raise JudgeError(f"{lab} has no {hidden}; a lab's hidden cases are CASES in that file")
        self._hidden: dict[str, list[Case]] = runpy.run_path(str(hidden))["CASES"]
        missing = set(self._exercises) - set(self._hidden)
        if missing:
            raise JudgeError(f"{hidden} has no cases for {', '.join(sorted(missing))}")

    def exercise(self, name: str) -> Exercise:
        """One exercise.

        Raises:
            JudgeError: the lab has no exercise of this name, so a check of it can't earn points.
        """
        if name not in self._exercises:
            raise JudgeError(
                f"{self.lab} checks {name!r}, but its exercises are {', '.join(self._exercises)}; "
                "the id of a check is the name of an exercise"
            )
        return self._exercises[name]

    def cases(self, name: str) -> list[Case]:
        """What is asked about an answer: the visible cases, then the hidden ones."""
        return [*self.exercise(name).cases, *self._hidden[name]]

    def verdict(self, name: str, case: Case, observed: str) -> Verdict:
        """The verdict on one case, from the text that the kernel gave for it."""
        exercise = self.exercise(name)
        return Verdict(name, exercise.title, *exercise.outcome_of(observed, case))

    def error(self, name: str, message: str) -> Verdict:
        """The verdict on an answer of which nothing was seen."""
        return Verdict(name, self.exercise(name).title, Outcome.ERROR, (("message", message),))


def _exercises(root: Path, name: str) -> ModuleType:
    if importlib.util.find_spec(f"techlabs.exercises.{name}"):
        return importlib.import_module(f"techlabs.exercises.{name}")
    path = root / "exercises" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"exercises_of_{name}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise JudgeError(f"no exercises of {name!r}: there is no {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
