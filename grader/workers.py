"""Work on many items at once, each in a process of its own that dies without taking another along.

The processes are forked, so they start with everything imported, and end with their item, so that a run of a
thousand needs no more memory than a run of ten.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import TypeVar

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


def each(
    task: Callable[[Item], Outcome], items: Iterable[Item], jobs: int
) -> Iterator[tuple[Item, Outcome | None]]:
    """Yield each item with what ``task`` made of it, as they are done; None when its process died.

    At most ``jobs`` processes run at a time. Whoever stops asking for more ends those that run.
    """
    context = multiprocessing.get_context("fork")
    waiting = list(reversed(list(items)))
    running: dict[Connection, tuple[Item, multiprocessing.process.BaseProcess]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                item = waiting.pop()
                reader, writer = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(task, item, writer))
                process.start()
                writer.close()
                running[reader] = item, process
            for reader in wait(list(running)):
                item, process = running.pop(reader)
                yield item, _received(reader)
                process.join()
    finally:
        for _, process in running.values():
            process.terminate()


def _work(task: Callable[[Item], Outcome], item: Item, writer: Connection) -> None:
    # An orphan would go on writing marks beside the run that starts after it.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with writer:
        writer.send(task(item))


def _received(reader: Connection) -> object | None:
    with reader:
        try:
            return reader.recv()
        except EOFError:
            return None
