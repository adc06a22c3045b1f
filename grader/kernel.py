"""How a submission's kernel is started."""

from __future__ import annotations

import subprocess
from typing import Any

from jupyter_client.manager import AsyncKernelManager
from traitlets.config import Config


class _QuietKernelManager(AsyncKernelManager):
    """Cells are heard over the kernel's channels; what else it prints isn't for the grader's terminal."""

    async def start_kernel(self, **kwargs: Any) -> None:
        await super().start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kwargs)


def submission_kernel(kernel_name: str, config: Config) -> AsyncKernelManager:
    """The manager that starts, interrupts and ends the kernel of one submission.

    The kernel is a plain process of the instructor's account: learners' code can do what the instructor can.
    """
    return _QuietKernelManager(kernel_name=kernel_name, config=config)
