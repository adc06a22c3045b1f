"""Sample answers of a lab: right ones in several styles, wrong ones with what a check must say about them."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from techlabs.exercise import Outcome


@dataclass(frozen=True)
class Sample:
    """One answer to one exercise.

    Attributes:
        exercise: for example "x1".
        outcome: the verdict that a check must give.
        says: a text that the verdict's reasons must hold; "" for a right answer.
        source: the code of the answer cell.
    """

    exercise: str
    outcome: Outcome
    says: str
    source: str


def right(exercise: str, source: str) -> Sample:
    """An answer that must pass, the hidden cases included."""
    return Sample(exercise, Outcome.PASSED, "", dedent(source))


def wrong(exercise: str, says: str, source: str) -> Sample:
    """An answer that must be found wrong, for the reason `says`."""
    return Sample(exercise, Outcome.WRONG, says, dedent(source))


def error(exercise: str, says: str, source: str) -> Sample:
    """An answer that fails with an exception whose message holds `says`."""
    return Sample(exercise, Outcome.ERROR, says, dedent(source))


def samples_of(folder: Path) -> list[Sample]:
    """The samples in the answers.py of a solution folder."""
    return runpy.run_path(str(folder / "answers.py"))["ANSWERS"]
