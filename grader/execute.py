"""Run a submission within limits: what can't run earns 0 with a reason, what ran before keeps its marks."""

from __future__ import annotations

from time import monotonic
from typing import Any

from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.preprocessors import Execute
from nbgrader.utils import is_grade
from traitlets import Integer

from grader.kernel import submission_kernel

TIMEOUT = "Execute.timeout in jupyter_config/nbgrader_config.py"
BUDGET = "ExecuteSubmission.budget in jupyter_config/nbgrader_config.py"


class ExecuteSubmission(Execute):
    """nbgrader's Execute with a limit for the whole submission; no failure takes earlier marks along."""

    budget = Integer(180, help="Seconds that the cells of one submission may take together.").tag(config=True)

    def preprocess(
        self, nb: NotebookNode, resources: Any = None, km: AsyncKernelManager | None = None
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Run all cells; ``techlabs.stops`` in the notebook's metadata names those that were stopped."""
        self._used = 0.0
        self._ended: str | None = None
        self._stops: list[str] = []
        nb, resources = super().preprocess(nb, resources, km)
        if self._stops:
            nb.metadata.setdefault("techlabs", {})["stops"] = self._stops
        return nb, resources

    def create_kernel_manager(self) -> AsyncKernelManager:
        """The kernel of this submission, started as `grader.kernel` says."""
        name = self.kernel_name or self.nb.metadata["kernelspec"]["name"]
        self.km = submission_kernel(name, self.config)
        return self.km

    def preprocess_cell(self, cell: NotebookNode, resources: Any, index: int) -> tuple[NotebookNode, Any]:
        """Run one cell, unless the kernel or the submission's time has ended."""
        if self._ended:
            if is_grade(cell):
                cell.outputs = [_error("NotRun", self._ended)]
            return cell, resources
        self._set_limit()
        started = monotonic()
        try:
            super().preprocess_cell(cell, resources, index)
        except DeadKernelError:
            self._end(
                cell,
                index,
                "The kernel died here: the code ended or crashed its process, or ran out of memory.",
            )
        except CellTimeoutError:
            # Raised when even the interrupt brings no answer.
            self._end(
                cell, index, f"{self._limit} The code could not be interrupted, so its kernel was ended."
            )
        self._used += monotonic() - started
        self._note_timeout(cell, index)
        return cell, resources

    def _set_limit(self) -> None:
        """A cell may take Execute.timeout, or what is left of the budget when that is less."""
        left = max(1, round(self.budget - self._used))
        seconds, whose = left, f"all that was left of this submission's {self.budget} s ({BUDGET})"
        if self.timeout and 0 < self.timeout <= left:
            seconds, whose = self.timeout, f"the limit for one cell ({TIMEOUT})"
        self._limit = f"Stopped after {seconds} s, {whose}. Is there a loop that never ends?"
        self.timeout_func = lambda _cell: seconds
        self.error_on_timeout = {
            "ename": "CellTimeoutError",
            "evalue": self._limit,
            "traceback": [self._limit],
        }

    def _note_timeout(self, cell: NotebookNode, index: int) -> None:
        stopped = any(output.get("evalue") == self._limit for output in cell.get("outputs", []))
        if stopped:
            self._stops.append(f"{_name(cell, index)}: {self._limit}")
        if self._used >= self.budget and not self._ended:
            self._ended = f"Not run: the cells above used up this submission's {self.budget} s ({BUDGET})."
            self._stops.append(self._ended)

    def _end(self, cell: NotebookNode, index: int, reason: str) -> None:
        """This cell and all below it can't earn marks any more."""
        cell.outputs = [*cell.get("outputs", []), _error("KernelEnded", reason)]
        self._ended = f"Not run: the kernel ended in {_name(cell, index)}."
        self._stops.append(f"{_name(cell, index)}: {reason} No later cell ran.")


def _name(cell: NotebookNode, index: int) -> str:
    grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
    return f'cell "{grade_id}"' if grade_id else f"cell {index + 1}"


def _error(ename: str, reason: str) -> NotebookNode:
    return new_output("error", ename=ename, evalue=reason, traceback=[reason])
