"""One exercise: what is looked at in a learner's answer, and what is expected of it.

A check has two halves. `observe` runs the answer and returns plain values; `judge` reads those values and
nothing else. The halves are apart so that grading can judge outside the process that ran the answer.
"""

from __future__ import annotations

import enum
import html
import traceback
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Sequence

Case = Dict[str, Any]
Observation = Dict[str, Any]


class Outcome(enum.Enum):
    """The four answers that a check can give."""

    PASSED = "passed"
    WRONG = "wrong"
    ERROR = "error"
    NOT_ATTEMPTED = "not attempted"


class Wrong(Exception):
    """Raised by `Exercise.judge`: what was expected, what was seen, and the usual cause."""

    def __init__(self, expected: str, seen: str, cause: str):
        super().__init__(f"expected {expected}; saw {seen}. Usual cause: {cause}")
        self.expected, self.seen, self.cause = expected, seen, cause


@dataclass(frozen=True)
class Verdict:
    """The answer of a check: an outcome and (label, text) lines that say why."""

    exercise: str
    title: str
    outcome: Outcome
    reasons: tuple[tuple[str, str], ...] = ()

    @property
    def passed(self) -> bool:
        """True when every case passed."""
        return self.outcome is Outcome.PASSED

    def __repr__(self) -> str:
        lines = [f"{self.exercise} {self.outcome.value}: {self.title}"]
        return "\n".join(lines + [f"  {label}: {text}" for label, text in self.reasons])

    def _repr_html_(self) -> str:
        # The mark repeats the outcome without colour; Okabe-Ito blue, vermilion, orange and grey.
        colour, mark = {
            Outcome.PASSED: ("#0072B2", "&#10003;"),
            Outcome.WRONG: ("#D55E00", "&#10007;"),
            Outcome.ERROR: ("#E69F00", "!"),
            Outcome.NOT_ATTEMPTED: ("#888888", "&hellip;"),
        }[self.outcome]
        rows = "".join(
            f"<div><b>{html.escape(label)}:</b> {html.escape(text)}</div>" for label, text in self.reasons
        )
        return (
            f'<div role="status" style="border-left:5px solid {colour};padding:4px 12px">'
            f'<div><b style="color:{colour}">{mark} {self.exercise} {self.outcome.value}</b>: '
            f"{html.escape(self.title)}</div>{rows}</div>"
        )


class Exercise:
    """Base class: an exercise sets the four attributes and writes the two methods.

    Attributes:
        name: the id in the lab, for example "x1".
        title: what the learner does, one line.
        hints: three texts, from a nudge to nearly the solution.
        cases: keyword arguments of `observe` and `judge`, one dict a case; sizes differ from case to case.
            Hidden cases, of the same keywords, are in the lab's folder under solutions/.
    """

    name: str
    title: str
    hints: tuple[str, str, str]
    cases: Sequence[Case]

    def observe(self, answer: Any, **case: Any) -> Observation:
        """Run the answer on one case; return plain numbers, texts, lists and tensors."""
        raise NotImplementedError

    def judge(self, seen: Observation, **case: Any) -> None:
        """Compare what was seen with what this case asks for.

        Raises:
            Wrong: the first thing that is not as expected.
        """
        raise NotImplementedError

    def verdict(self, answer: Any, hidden: Iterable[Case] = ()) -> Verdict:
        """Check an answer on the visible cases and then on `hidden` ones; stop at the first failure."""
        for case in [*self.cases, *hidden]:
            outcome, reasons = self._outcome(answer, case)
            if outcome is not Outcome.PASSED:
                return Verdict(self.name, self.title, outcome, reasons)
        return Verdict(self.name, self.title, Outcome.PASSED)

    def _outcome(self, answer: Any, case: Case) -> tuple[Outcome, tuple[tuple[str, str], ...]]:
        import torch

        try:
            # A check seeds what it runs; the learner's own random numbers go on undisturbed.
            with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
                seen = self.observe(answer, **case)
            self.judge(seen, **case)
        except Wrong as wrong:
            return Outcome.WRONG, (
                ("expected", wrong.expected),
                ("seen", wrong.seen),
                ("usual cause", wrong.cause),
            )
        except NotImplementedError as stub:
            return Outcome.NOT_ATTEMPTED, (("still to do", place_of(stub)),)
        except Exception as error:
            return Outcome.ERROR, (
                ("message", f"{type(error).__name__}: {error}"),
                ("where", place_of(error)),
                ("called with", ", ".join(f"{key}={value!r}" for key, value in case.items())),
            )
        return Outcome.PASSED, ()


def place_of(error: BaseException) -> str:
    """The deepest line of the learner's own code that an error passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    # IPython compiles cells under a name of its own, in a temporary folder or in angle brackets.
    cells = [f for f in frames if "ipykernel_" in f.filename or f.filename.startswith("<")]
    if not cells:
        return "your answer"
    code = f": {cells[-1].line}" if cells[-1].line else ""
    return f"line {cells[-1].lineno} of {cells[-1].name}{code}"
