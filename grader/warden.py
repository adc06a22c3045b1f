"""The parent of a box: it ends everything inside at the limits, and writes down why.

It runs nothing but this loop, so neither a signal handler in the box nor a busy grader keeps a box
alive. When the grader dies, the box ends too.

Usage: warden.py LIMITS GRADER SHARED REPORT COMMAND... with the limits as JSON; GRADER is the id of the
process that grades, SHARED the one folder of this computer that the box can write, REPORT the file for the
reason.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

TICK = 0.1
SHARED_ENTRIES, SHARED_BYTES = 40, 1 << 20
"""A kernel puts one file and five sockets there."""


def main(limits: str, grader: str, shared: str, report: str, *command: str) -> int:
    """Run the command until it ends, or a limit is reached, or the grader is gone."""
    allowed = json.loads(limits)
    started = time.monotonic()
    box = subprocess.Popen(command)
    while box.poll() is None:
        time.sleep(TICK)
        if os.getppid() != int(grader):
            reason = "the grader ended"
            shutil.rmtree(Path(report).parent, ignore_errors=True)
        elif time.monotonic() - started > allowed["seconds"]:
            reason = f"its {allowed['seconds']} s were over"
        else:
            reason = _excess(list(_descendants(box.pid)), allowed) or _overfull(Path(shared))
        if reason:
            if Path(report).parent.is_dir():
                Path(report).write_text(reason, encoding="utf-8")
            # The box's first process dies, and with it, by the kernel's hand, every other one in there.
            box.kill()
            box.wait()
    return box.returncode


def _descendants(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return
    for child in " ".join(children).split():
        yield from _descendants(int(child))


def _excess(pids: list[int], allowed: dict[str, int]) -> str | None:
    if len(pids) > allowed["processes"] + 3:
        return f"it had more than {allowed['processes']} processes"
    limit = allowed["memory_mb"] << 20
    # Resident sizes count a shared page once for each process; the exact answer takes longer.
    if sum(map(_resident, pids)) > limit and sum(map(_proportional, pids)) > limit:
        return f"it used more than {allowed['memory_mb']} MB of memory"
    return None


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _proportional(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return _resident(pid)
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _overfull(shared: Path) -> str | None:
    try:
        sizes = [entry.stat(follow_symlinks=False).st_size for entry in os.scandir(shared)]
    except OSError:
        return None
    if len(sizes) > SHARED_ENTRIES or sum(sizes) > SHARED_BYTES:
        return "it filled the folder of the kernel's sockets"
    return None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
