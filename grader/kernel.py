"""How a submission's kernel is started: in a box, or, where that was asked for, without one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.manager import AsyncKernelManager
from traitlets.config import Config

from grader import sandbox
from grader.provisioner import BoxProvisioner
from grader.sandbox import Limits

MAX_MESSAGE = 64 << 20
"""Bytes. A kernel that sends a larger message is cut off."""


class SubmissionKernelManager(AsyncKernelManager):
    """Cells are heard over the kernel's channels; what else it prints isn't for the grader's terminal."""

    box: BoxProvisioner | None = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.context.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE)

    async def start_kernel(self, **kwargs: Any) -> None:
        """As in jupyter_client."""
        if self.box is None:
            kwargs["env"] = {**os.environ, "TECHLABS_JUDGED": "1"}
        await super().start_kernel(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kwargs)

    @property
    def reason(self) -> str | None:
        """Why the kernel's box was ended from outside, None when it wasn't."""
        return self.box.reason if self.box else None

    @property
    def left_out(self) -> list[str]:
        """Files of the submission that the kernel didn't get, one line each."""
        return list(self.box.left_out) if self.box else []


def submission_kernel(
    kernel_name: str, config: Config, root: Path, limits: Limits, unsafe: bool = False
) -> SubmissionKernelManager:
    """The manager that starts, interrupts and ends the kernel of one submission.

    With ``unsafe`` the kernel is a plain process of the instructor's account: learners' code can do what the
    instructor can. Its marks are given by the same judge.

    Raises:
        NoBox: there is no box on this computer, and ``unsafe`` wasn't asked for.
    """
    manager = SubmissionKernelManager(kernel_name=kernel_name, config=config)
    if unsafe:
        return manager
    sandbox.require()
    box = BoxProvisioner(kernel_id="submission", kernel_spec=manager.kernel_spec, parent=manager)
    box.root, box.limits = root, limits
    manager.box = manager.provisioner = box
    # A signal would reach the warden; a message reaches the kernel.
    manager.kernel_spec.interrupt_mode = "message"
    return manager
