"""Run a submission within limits: what can't run earns 0 with a reason, everything else is judged.

Points are written by this process alone, from the judge's verdicts, after the kernel has ended.
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Any

from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellExecutionComplete, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_output
from nbgrader.preprocessors import Execute
from nbgrader.utils import is_grade
from traitlets import Bool, Integer, Unicode

from grader.canary import canaries
from grader.judge import Judge
from grader.kernel import SubmissionKernelManager, submission_kernel
from grader.outputs import OutputMeter, trim
from grader.sandbox import Limits
from techlabs import boxed, plain
from techlabs.exercise import Case, Verdict

TIMEOUT = "Execute.timeout in jupyter_config/nbgrader_config.py"
BUDGET = "ExecuteSubmission.budget in jupyter_config/nbgrader_config.py"
ASIDE_BYTES = 2 * plain.MAX_CHARACTERS
KERNELS = 4
"""How many kernels one submission may use up."""


class KernelEnded(Exception):
    """The kernel is gone or no longer answers; the message says why."""


class ExecuteSubmission(Execute):
    """nbgrader's Execute in a box, with a judge, and with a limit for the whole submission."""

    budget = Integer(180, help="Seconds that the cells of one submission may take together.").tag(config=True)
    memory_mb = Integer(4000, help="Resident memory of one submission.").tag(config=True)
    unsafe = Bool(False, help="Run submissions as the instructor where there is no box.").tag(config=True)
    course_root = Unicode(help="The folder that holds solutions/.").tag(config=True)

    def preprocess(
        self, nb: NotebookNode, resources: Any = None, km: AsyncKernelManager | None = None
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Run all cells and judge the answers.

        In the notebook's metadata, ``techlabs.stops`` says what was stopped, ``techlabs.left_out`` which
        files the submission ran without, and ``techlabs.holds`` why a person should look before marks count.
        """
        self._used = 0.0
        self._stops: list[str] = []
        self._holds: list[str] = []
        self._verdicts: dict[int, Verdict] = {}
        self._killers: set[int] = set()
        self._needs_kernel = False
        self._asking = False
        self._meter, self._aside = OutputMeter(), OutputMeter(ASIDE_BYTES, ASIDE_BYTES * 100)
        self._boxes: list[SubmissionKernelManager] = []
        self._judge = Judge(Path(self.course_root), resources["nbgrader"]["assignment"])
        nb, resources = super().preprocess(nb, resources, km)
        for index, cell in enumerate(nb.cells):
            if is_grade(cell):
                _write_points(cell, self._verdicts[index])
        notes = {"stops": self._stops, "holds": self._holds, "left_out": self._boxes[0].left_out}
        own = nb.metadata.setdefault("techlabs", {})
        own.update({name: lines for name, lines in notes.items() if lines})
        # Only now is it graded: a run that was cut short leaves no such mark.
        own["graded"] = own.pop("digest", None)
        return nb, resources

    def create_kernel_manager(self) -> SubmissionKernelManager:
        """The kernel of this submission, started as `grader.kernel` says."""
        name = self.kernel_name or self.nb.metadata["kernelspec"]["name"]
        # The box outlives what nbclient allows by a little, and no longer.
        limits = Limits(seconds=round(self._left()) + 60, memory_mb=self.memory_mb)
        self.km = submission_kernel(name, self.config, Path(self.course_root), limits, self.unsafe)
        self._boxes.append(self.km)
        return self.km

    def preprocess_cell(self, cell: NotebookNode, resources: Any, index: int) -> tuple[NotebookNode, Any]:
        """Run one cell; a check cell is judged."""
        if is_grade(cell):
            self._verdicts[index] = self._judged(cell, index)
        elif cell.cell_type == "code":
            try:
                self._run(cell, index)
            except KernelEnded as ended:
                cell.outputs = [*cell.get("outputs", []), _error(str(ended))]
        if index == len(self.nb.cells) - 1 and not self._needs_kernel:
            self._ask_canaries(index)
        return cell, resources

    # The judge's questions

    def _judged(self, cell: NotebookNode, index: int) -> Verdict:
        name = cell.metadata.nbgrader.grade_id.removesuffix("-check")
        started = self._used
        try:
            self._run(cell, index)
            failed = [output for output in cell.outputs if output.output_type == "error"]
            if failed:
                return self._judge.error(name, f"{failed[-1].ename}: {failed[-1].evalue}"[:600])
            for case in self._judge.cases(name):
                verdict = self._ask(name, case, index, started)
                if not verdict.passed:
                    break
        except KernelEnded as ended:
            return self._judge.error(name, str(ended))
        return verdict

    def _ask(self, name: str, case: Case, index: int, started: float) -> Verdict:
        """The verdict on one case, from what the kernel sees of the answer."""
        question = f"__import__('techlabs.boxed').boxed.observe({name!r}, {plain.dump(case)!r})"
        outputs = self._run_aside(question, index, started)
        seen = [output.data[boxed.MIMETYPE] for output in outputs if boxed.MIMETYPE in output.get("data", {})]
        stopped = [output.evalue for output in outputs if output.get("evalue") == self._limit]
        if stopped:
            return self._judge.error(name, f"{name} was stopped{_place(seen)}. {self._limit}")
        if not seen:
            return self._judge.error(name, "the kernel said nothing about the answer of this check")
        return self._judge.verdict(name, case, seen[-1])

    def _ask_canaries(self, index: int) -> None:
        for canary in canaries():
            try:
                if not canary.sings(self._run_aside(canary.source, index, self._used)):
                    self._holds.append(f"held for review: {canary.reason}")
            except KernelEnded:
                return

    def _run_aside(self, source: str, index: int, started: float) -> list[NotebookNode]:
        """Run a cell that isn't the submission's, and return its outputs."""
        own, aside = self.nb.cells[index], new_code_cell(source)
        self._asking = True
        try:
            self._run(aside, index, started)
        finally:
            self._asking = False
            self.nb.cells[index] = own
        return aside.outputs

    # Running cells

    def _run(self, cell: NotebookNode, index: int, started: float | None = None) -> None:
        """Run a cell in a kernel that knows the cells above.

        Args:
            cell: the cell.
            index: its place in the notebook.
            started: the time used when this cell's limit began to count, by default now.

        Raises:
            KernelEnded: the cell ended its kernel, or there is no time or no kernel left to run it.
        """
        if self._needs_kernel:
            self._revive(index)
        if self._left() <= 0:
            raise KernelEnded(
                f"Not run: the cells above used up this submission's {self.budget} s ({BUDGET})."
            )
        self._set_limit(0.0 if started is None else self._used - started)
        began, name = monotonic(), _name(self.nb.cells[index], index)
        try:
            super().preprocess_cell(cell, self.resources, index)
        except DeadKernelError:
            self._lose_kernel(index, name, f"The kernel died here: {self._why_dead()}")
        except CellTimeoutError:
            # Raised when even the interrupt brings no answer.
            reason = f"{self._limit} The code could not be interrupted, so its kernel was ended."
            self._lose_kernel(index, name, reason)
        except Exception as error:
            self._lose_kernel(index, name, f"The kernel broke Jupyter's protocol ({type(error).__name__}).")
        finally:
            self._used += monotonic() - began
            trim(cell)
        if any(output.get("evalue") == self._limit for output in cell.get("outputs", [])):
            self._stops.append(f"{name}: {self._limit}")

    def _left(self) -> float:
        return self.budget - self._used

    def _set_limit(self, spent: float) -> None:
        """A cell may take Execute.timeout, or what is left of the budget when that is less."""
        seconds = left = max(1, round(self._left()))
        said = f"{left} s, all that was left of this submission's {self.budget} s ({BUDGET})"
        if self.timeout and 0 < self.timeout - spent <= left:
            seconds, said = (
                max(1, round(self.timeout - spent)),
                f"{self.timeout} s, the limit for one cell ({TIMEOUT})",
            )
        self._limit = f"Stopped after {said}. Is there a loop that never ends?"
        self.timeout_func = lambda _cell: seconds
        self.error_on_timeout = {
            "ename": "CellTimeoutError",
            "evalue": self._limit,
            "traceback": [self._limit],
        }

    def _why_dead(self) -> str:
        reason = self.km.reason if self.km else None
        return f"{reason}." if reason else "the code ended or crashed its process."

    def _lose_kernel(self, index: int, name: str, reason: str) -> None:
        self._killers.add(index)
        self._needs_kernel = True
        self._stops.append(f"{name}: {reason}")
        raise KernelEnded(reason)

    def _revive(self, index: int) -> None:
        """A fresh kernel that has run the cells above, save those that ended one."""
        if len(self._boxes) >= KERNELS:
            raise KernelEnded(f"Not run: the cells above ended {KERNELS} kernels.")
        self._cleanup_kernel()
        self.km = self.kc = None
        self.create_kernel_manager()
        self.start_new_kernel()
        self.start_new_kernel_client()
        self._needs_kernel = False
        for above, cell in enumerate(self.nb.cells[:index]):
            if cell.cell_type == "code" and not is_grade(cell) and above not in self._killers:
                self._run_aside(cell.source, above, self._used)

    def process_message(
        self, msg: dict[str, Any], cell: NotebookNode, cell_index: int
    ) -> NotebookNode | None:
        """As in nbclient, within bounds; a message that isn't what it should be is dropped."""
        try:
            meter = self._aside if self._asking else self._meter
            if meter.admits(msg, cell):
                return super().process_message(msg, cell, cell_index)
        except CellExecutionComplete:
            raise
        except Exception as error:
            self.log.debug("message dropped: %r", error)
        return None


def _write_points(cell: NotebookNode, verdict: Verdict) -> None:
    """The one output of a check cell: a number that nbgrader reads as its points, and the reasons."""
    points = cell.metadata.nbgrader.points if verdict.passed else 0
    data = {"text/html": verdict._repr_html_(), "text/plain": f"{points:g}"}
    cell.outputs = [new_output("execute_result", data=data)]


def _place(seen: list[str]) -> str:
    """Where a stopped answer was, if its kernel could still say so."""
    try:
        return f" in {plain.load(seen[-1])['stopped']}"[:300]
    except (IndexError, KeyError, TypeError, plain.Malformed):
        return ""


def _name(cell: NotebookNode, index: int) -> str:
    grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
    return f'cell "{grade_id}"' if grade_id else f"cell {index + 1}"


def _error(reason: str) -> NotebookNode:
    return new_output("error", ename="KernelEnded", evalue=reason, traceback=[reason])
