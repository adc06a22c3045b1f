"""Jupyter's way to start a kernel somewhere else: here, in a box."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from jupyter_client.provisioning import LocalProvisioner

from grader import sandbox
from grader.sandbox import Limits


class BoxProvisioner(LocalProvisioner):
    """Starts a kernel in a box, reached through sockets in a folder that the box shares with this process."""

    limits = Limits()
    root = Path("/")
    left_out: tuple[str, ...] = ()
    """Files of the submission that the box doesn't get, one line each."""
    folder: Path
    _reason: str | None = None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Make the folders of a new box, and put the kernel's command into it."""
        self.folder = Path(tempfile.mkdtemp(prefix="techlabs-box-"))
        run, submission = self.folder / "run", self.folder / "submission"
        run.mkdir()
        manager = self.parent
        manager.transport, manager.ip = "ipc", str(run / "kernel")
        manager.connection_file = str(run / "kernel.json")
        kwargs = await super().pre_launch(**kwargs)
        self.left_out = sandbox.private_copy(Path(kwargs.pop("cwd", None) or "."), submission)
        kwargs["cmd"] = sandbox.command(
            run, submission, kwargs["cmd"], self.folder / "report", self.limits, self.root
        )
        # The first process of a box keeps the environment it was started with where others can read it.
        kwargs["env"] = {}
        return kwargs

    @property
    def reason(self) -> str | None:
        """Why the warden ended the kernel, None when it didn't."""
        report = self.folder / "report"
        if report.is_file():
            self._reason = report.read_text(encoding="utf-8")
        return self._reason

    async def cleanup(self, restart: bool = False) -> None:
        """Remove the folders of the box."""
        await super().cleanup(restart=restart)
        self._reason = self.reason
        shutil.rmtree(self.folder, ignore_errors=True)
