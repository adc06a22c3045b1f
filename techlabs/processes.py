"""Several processes that train together, started from a notebook."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from pathlib import Path
from typing import Any, Callable


def run_together(work: Callable[[int, int], Any], processes: int = 2, seconds: float = 120) -> list[Any]:
    """Run `work(rank, processes)` in processes joined by torch.distributed (gloo); return their results.

    The processes are forks, so that a function of a notebook can run in them; results have to be plain
    Python values.

    Raises:
        RuntimeError: a process failed, with its message, or none came to an end within `seconds`.
    """
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder, "meeting").as_uri()
        members = [
            context.Process(target=_member, args=(work, rank, processes, meeting, results), daemon=True)
            for rank in range(processes)
        ]
        for member in members:
            member.start()
        try:
            return _collect(members, results, seconds)
        finally:
            for member in members:
                member.kill()
                member.join()


def _collect(members: list[Any], results: Any, seconds: float) -> list[Any]:
    outcomes: dict[int, Any] = {}
    end = time.monotonic() + seconds
    while len(outcomes) < len(members):
        # Looked at before the queue: what a process put there before it ended is found below.
        alive = any(member.is_alive() for member in members)
        if not results.empty():
            rank, failure, result = results.get()
            if failure:
                raise RuntimeError(f"process {rank}: {failure}")
            outcomes[rank] = result
        elif not alive:
            raise RuntimeError(f"only {len(outcomes)} of {len(members)} processes gave a result")
        elif time.monotonic() > end:
            raise RuntimeError(f"{len(members) - len(outcomes)} processes were at work after {seconds:g} s")
        else:
            time.sleep(0.01)
    return [outcomes[rank] for rank in range(len(members))]


def _member(work: Callable, rank: int, processes: int, meeting: str, results: Any) -> None:
    import torch
    from torch import distributed

    # A fork has one thread; a pool of the parent's would wait for threads that aren't there.
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=processes)
        results.put((rank, None, work(rank, processes)))
        distributed.destroy_process_group()
    except Exception as error:
        results.put((rank, f"{type(error).__name__}: {error}", None))
