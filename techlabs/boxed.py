"""The learner's side of grading: keep each answer, and say what the judge asks about it.

The judge is another process. What is said here is a claim, never a mark: this module runs beside a learner's
code, which can replace it.
"""

from __future__ import annotations

import os
from typing import Any

from techlabs import plain
from techlabs.exercise import Exercise, place_of

MIMETYPE = "application/vnd.techlabs.observation"

_answers: dict[str, tuple[Exercise, Any]] = {}


def is_judged() -> bool:
    """Whether marks are given by a judge outside this kernel."""
    return "TECHLABS_JUDGED" in os.environ


def bind(exercise: Exercise, answer: Any) -> None:
    """Keep the answer of an exercise for the judge's questions."""
    _answers[exercise.name] = exercise, answer


def observe(name: str, case: str) -> None:
    """Display what is seen of an answer on a case, both as `techlabs.plain` writes them."""
    from IPython.display import display

    exercise, answer = _answers[name]
    try:
        text = exercise.observed(answer, plain.load(case))
    except KeyboardInterrupt as stop:
        text = plain.dump({"stopped": place_of(stop)})
    display({MIMETYPE: text, "text/plain": "an observation"}, raw=True)
