"""A lab as its notebook sees it: checks, hints, predictions, results and the exit slip."""

from __future__ import annotations

import html
import importlib
import importlib.util
import os
from typing import Any, Sequence

from techlabs import boxed
from techlabs.exercise import Case, Exercise, Outcome, Verdict, place_of
from techlabs.paths import solution_folder
from techlabs.record import Record
from techlabs.show import Picture, Text, table


class CheckFailed(AssertionError):
    """Raised in grading when an answer earns no points; shown as its message alone, without code."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class Lab:
    """The helper of one lab.

    Args:
        name: the permanent id of the lab: its folder's name without the number, for example "ipu_first".

    Raises:
        ValueError: there is no such lab.
    """

    def __init__(self, name: str):
        module = f"techlabs.exercises.{name}"
        if not name.isidentifier() or importlib.util.find_spec(module) is None:
            raise ValueError(f"No lab {name!r}. The id is the folder's name without its number.")
        self.name = name
        self._exercises = {e.name: e for e in importlib.import_module(module).EXERCISES}
        self._record = Record(name)
        # What passed since this kernel started: the record may remember answers that this kernel never ran.
        self._passed: set[str] = set()

    def __repr__(self) -> str:
        passed = [name for name, outcome in self._record.items("checks").items() if outcome == "passed"]
        return f"Lab {self.name}: {len(passed)} of {len(self._exercises)} exercises passed on this computer"

    # Checks

    def check(self, exercise: str, answer: Any) -> Verdict:
        """Check an answer on the visible cases: passed, wrong, error or not attempted, and why."""
        if _grading():
            # `grade`, in the same cell, runs these cases too: an endless loop should cost its limit once.
            return Verdict(exercise, self._exercise(exercise).title, Outcome.NOT_ATTEMPTED)
        verdict = self._exercise(exercise).verdict(answer)
        self._record.put("checks", exercise, verdict.outcome.value)
        (self._passed.add if verdict.passed else self._passed.discard)(exercise)
        if verdict.outcome is not Outcome.NOT_ATTEMPTED:
            self._record.count("attempts", exercise)
        if _nbgrader() == "validate" and not verdict.passed:
            # nbgrader's Validate knows failure by an exception alone.
            raise CheckFailed(repr(verdict))
        return verdict

    def passed(self, *exercises: str) -> bool:
        """True once the checks of these exercises passed in this session; until then it says which wait."""
        waiting = [name for name in exercises if name not in self._passed]
        if waiting and not _grading():
            print(f"This cell waits for {', '.join(waiting)}: it runs once their checks have passed.")
        return not waiting

    def grade(self, exercise: str, answer: Any) -> None:
        """Check an answer on the visible and the hidden cases, for marks.

        Where a judge outside this kernel gives the marks, the answer is only kept for its questions.

        Raises:
            CheckFailed: in grading, when the answer is anything but right.
        """
        from IPython.display import display

        if boxed.is_judged():
            boxed.bind(self._exercise(exercise), answer)
            return

        try:
            verdict = self._exercise(exercise).verdict(answer, self._hidden_cases(exercise))
        except KeyboardInterrupt as stop:
            raise CheckFailed(f"{exercise} was stopped in {place_of(stop)}") from None
        display(verdict)
        if not verdict.passed:
            raise CheckFailed(repr(verdict))

    # Help

    def hint(self, exercise: str, level: int = 1) -> Text:
        """Open a hint: 1 is a nudge, 2 says where to look, 3 is nearly the solution."""
        hints = self._exercise(exercise).hints
        if level not in range(1, len(hints) + 1):
            return Text(f"{exercise} has hints 1 to {len(hints)}. Ask for lab.hint({exercise!r}, 1).")
        self._record.count("hints", f"{exercise}.{level}")
        return Text(hints[level - 1], title=f"Hint {level} of {len(hints)} for {exercise}")

    def solution(self, exercise: str) -> Text:
        """Show a solution, once you have tried."""
        from techlabs.solutions import solution_text

        self._exercise(exercise)
        if not self._record.get("attempts", exercise):
            return Text(f"Try {exercise} first: run its check on an answer of your own, right or wrong.")
        text = solution_text(self.name, exercise)
        if text is None:
            return Text("The solutions aren't on this computer. Your instructor has them.")
        return Text(text, title=f"One solution of {exercise}", code=True)

    # Prediction

    def predict(self, key: str, question: str, choices: Sequence[Any], answer: Any = None) -> None:
        """Ask for a prediction and keep it. Click a choice, or type it as `answer` and run the cell again."""
        from IPython.display import display

        if answer in choices:
            self._record.put("predictions", key, answer)
        kept = self._record.get("predictions", key)
        note = "Click your choice, or write it as answer=... in this cell."
        if answer is not None and answer not in choices:
            note = f"{answer!r} isn't one of {', '.join(map(str, choices))}."
        elif kept is not None:
            note = f"Your prediction: {kept}"
        display(Text(note, title=question))
        if not _grading():
            _show_buttons(choices, lambda choice: self._record.put("predictions", key, choice))

    def predicted(self, key: str) -> bool:
        """True once there is a prediction; until then it says so and the cell should do nothing more."""
        if _grading() or self._record.get("predictions", key) is not None:
            return True
        print("Waiting for your prediction: answer the cell above, then run this one again.")
        return False

    def compare(self, key: str, actual: Any) -> Text:
        """Set a prediction beside what came out."""
        kept = self._record.get("predictions", key)
        if kept is None:
            return Text(f"You made no prediction; it was {actual}.")
        same = "as you predicted" if kept == actual else f"you predicted {kept}: what did you not count?"
        return Text(f"It was {actual}, {same}.")

    # Results and the exit slip

    def keep(self, **results: Any) -> None:
        """Keep results of this lab for the labs that compare machines."""
        for key, value in results.items():
            self._record.put("results", key, value)

    def compare_machines(self, *labs: str) -> Picture | Text:
        """A table of the results that these labs kept on this computer."""
        records = {name: Record(name).items("results") for name in labs}
        keys = sorted({key for results in records.values() for key in results})
        if not keys:
            return Text(f"Nothing to compare yet: {' and '.join(labs)} kept no results on this computer.")
        rows = [
            [key.replace("_", " "), *(str(records[name].get(key, "not run yet")) for name in labs)]
            for key in keys
        ]
        return table(["", *labs], rows)

    def exit_slip(self, **answers: str) -> Text:
        """Keep your answers to the last questions of the lab."""
        for key, text in answers.items():
            if text.strip():
                self._record.put("exit_slip", key, text)
        kept = self._record.items("exit_slip")
        missing = [key for key in answers if key not in kept]
        return Text("Still open: " + ", ".join(missing) if missing else "Kept. Thank you.")

    def _exercise(self, name: str) -> Exercise:
        if name not in self._exercises:
            raise ValueError(f"{self.name} has no exercise {name!r}: it has {', '.join(self._exercises)}.")
        return self._exercises[name]

    def _hidden_cases(self, exercise: str) -> Sequence[Case]:
        folder = solution_folder(self.name)
        if folder is None:
            raise FileNotFoundError(
                f"The hidden cases of {self.name} aren't on this computer: it can't grade."
            )
        spec = importlib.util.spec_from_file_location(f"hidden_{self.name}", folder / "hidden.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.CASES[exercise]


def _nbgrader() -> str | None:
    """nbgrader says in the environment why it runs this kernel: "autograde" or "validate"."""
    return os.environ.get("NBGRADER_EXECUTION")


def _grading() -> bool:
    return _nbgrader() == "autograde"


def _show_buttons(choices: Sequence[Any], chosen: Any) -> None:
    """One button a choice where the page has widgets; the text around them works without."""
    try:
        import ipywidgets
        from IPython.display import display
    except ImportError:
        return
    status = ipywidgets.HTML()
    buttons: list[tuple[Any, Any]] = [
        (c, ipywidgets.Button(description=str(c), layout={"width": "auto"})) for c in choices
    ]
    for choice, button in buttons:

        def click(_: Any, choice: Any = choice) -> None:
            chosen(choice)
            status.value = f"Kept: {html.escape(str(choice))}"

        button.on_click(click)
    display(ipywidgets.HBox([button for _, button in buttons] + [status]))
