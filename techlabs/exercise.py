"""One exercise: what is looked at in a learner's answer, and what is expected of it.

A check has two halves. `observe` runs the answer and returns plain values; `judge` reads those values and
nothing else. The halves are apart so that grading can judge outside the process that ran the answer: there
`observed` runs in the learner's kernel, and its text is all that `outcome_of` gets to see.
"""

from __future__ import annotations

import enum
import html
import sys
import traceback
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ContextManager, Dict, Iterable, Sequence, Tuple

from techlabs import plain

Case = Dict[str, Any]
Observation = Dict[str, Any]
Reasons = Tuple[Tuple[str, str], ...]


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
            outcome, reasons = self.outcome_of(self.observed(answer, case), case)
            if outcome is not Outcome.PASSED:
                return Verdict(self.name, self.title, outcome, reasons)
        return Verdict(self.name, self.title, Outcome.PASSED)

    def observed(self, answer: Any, case: Case) -> str:
        """What `observe` saw of an answer on one case, as text: values, or the error that came instead."""
        try:
            # A check seeds what it runs; the learner's own random numbers go on undisturbed.
            with _own_random_numbers():
                return plain.dump({"seen": self.observe(answer, **case)})
        except NotImplementedError as stub:
            return plain.dump({"stub": place_of(stub)})
        except Exception as error:
            message = f"{type(error).__name__}: {error}"[:2000]
            return plain.dump({"error": message, "where": place_of(error)})

    def outcome_of(self, observed: str, case: Case) -> tuple[Outcome, Reasons]:
        """Judge what `observed` said about one case. Whatever the text is, there is an outcome."""
        try:
            found = plain.load(observed)
            if "stub" in found:
                return Outcome.NOT_ATTEMPTED, (("still to do", _short(found["stub"])),)
            if "error" in found:
                called = ", ".join(f"{key}={value!r}" for key, value in case.items())
                return Outcome.ERROR, (
                    ("message", _short(found["error"])),
                    ("where", _short(found["where"])),
                    ("called with", called),
                )
            self.judge(found["seen"], **case)
        except Wrong as wrong:
            return Outcome.WRONG, (
                ("expected", _short(wrong.expected)),
                ("seen", _short(wrong.seen)),
                ("usual cause", wrong.cause),
            )
        except Exception as error:
            return Outcome.WRONG, (
                ("expected", "numbers, texts, lists or tensors that this check can read"),
                ("seen", f"values that it can't ({type(error).__name__})"),
                ("usual cause", "the answer returned something of another kind than it is asked for."),
            )
        return Outcome.PASSED, ()


def _short(text: Any) -> str:
    """What came from an answer can be of any length; a person reads one screen."""
    text = str(text)
    return text if len(text) <= 600 else f"{text[:600]}..."


def _own_random_numbers() -> ContextManager[Any]:
    torch = sys.modules.get("torch")
    if torch is None:
        return nullcontext()
    return torch.random.fork_rng(devices=range(torch.cuda.device_count()))


def cause_of(number: Any, causes: dict[float, str], tolerance: float, otherwise: str) -> str:
    """The cause of a wrong number: that of the known wrong formula which gives it, else `otherwise`.

    Args:
        number: what an answer returned, of whatever kind.
        causes: the usual cause, by the number that it leads to; the first that fits counts.
    """
    if isinstance(number, (int, float)):
        for value, cause in causes.items():
            if abs(number - value) < tolerance:
                return cause
    return otherwise


def place_of(error: BaseException) -> str:
    """The deepest line of the learner's own code that an error passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    # IPython compiles cells under a name of its own, in a temporary folder or in angle brackets.
    cells = [f for f in frames if "ipykernel_" in f.filename or f.filename.startswith("<")]
    if not cells:
        return "your answer"
    code = f": {cells[-1].line}" if cells[-1].line else ""
    return f"line {cells[-1].lineno} of {cells[-1].name}{code}"
