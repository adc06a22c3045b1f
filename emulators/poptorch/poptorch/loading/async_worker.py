"""The process that loads data ahead of the model: it walks through the data set and fills a ring buffer."""

import signal
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.multiprocessing
from torch.utils import _pytree as pytree

from poptorch.capture import structures
from poptorch.loading.ring_buffer import EMPTY, RingBuffer

# What the reader may tell the worker: walk through the data, begin again before it has ended, or stop.
START, RESTART, STOP = "start", "restart", "stop"


@dataclass(frozen=True)
class Task:
    """What a worker needs to know.

    `sleep` is in seconds; `rebatched` explains `rebatched_size`; `start_method` is how this process starts
    its own children, a loader's workers for instance.
    """

    dataset: Iterable
    slots: int
    sleep: float
    load_indefinitely: bool
    early_preload: bool
    rebatched_size: int | None
    drop_last: bool
    parsers: dict[type, structures.ICustomArgParser]
    start_method: str


class _Interrupted(Exception):
    """The reader wants something else than the rest of the data."""


def work(task: Task, connection: Connection) -> None:
    """Fill the buffer until told to stop. What goes wrong is printed here, and told to the reader."""
    # An interrupt is the reader's to handle: it stops this process on its way out.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    # A process that was started in some way starts its children in the same way, which may be slow.
    torch.multiprocessing.set_start_method(task.start_method, force=True)
    for cls, parser in task.parsers.items():
        structures.registerCustomArgParser(cls, parser)
    try:
        _Worker(task, connection).run()
    except (EOFError, BrokenPipeError):
        pass
    except Exception as error:
        traceback.print_exc()
        connection.send(f"{type(error).__name__}: {error}")


class _Worker:
    def __init__(self, task: Task, connection: Connection):
        self._task = task
        self._connection = connection
        elements = self._elements()
        first = next(elements, None)
        if first is None:
            raise ValueError("the data set is empty")
        self._buffer = RingBuffer.like(first, task.slots)
        self._buffer.put(first)
        connection.send(self._buffer)
        # The rest of the data whose first element is in the buffer already.
        self._begun: Iterator[Any] | None = elements

    def _elements(self) -> Iterator[Any]:
        elements = iter(self._task.dataset)
        if self._task.rebatched_size is None:
            return elements
        return rebatched(elements, self._task.rebatched_size, self._task.drop_last)

    def run(self) -> None:
        """Do what the reader says, until it says stop."""
        command = START if self._task.early_preload else self._connection.recv()
        while command != STOP:
            if command == RESTART:
                self._begun = None
                self._buffer.restart()
                self._connection.send(RESTART)
            command = self._load()
            if command is None:
                command = START if self._task.load_indefinitely else self._connection.recv()

    def _load(self) -> str | None:
        """Put one walk through the data into the buffer; returns a command that cut it short."""
        # Not by its truth: a loader's iterator may not know its length.
        elements = self._elements() if self._begun is None else self._begun
        self._begun = None
        try:
            for element in elements:
                self._wait_for_slot()
                self._buffer.put(element)
            self._wait_for_slot()
            self._buffer.put_end()
        except _Interrupted:
            return self._connection.recv()
        return None

    def _wait_for_slot(self) -> None:
        while self._buffer.state != EMPTY:
            if self._connection.poll():
                raise _Interrupted
            time.sleep(self._task.sleep)
        if self._connection.poll():
            raise _Interrupted


def rebatched(elements: Iterator[Any], size: int, drop_last: bool) -> Iterator[Any]:
    """Batches of `size` rows from elements of any number of rows; the last may be smaller unless dropped."""
    waiting: list[list[torch.Tensor]] = []
    rows = 0
    structure: pytree.TreeSpec | None = None
    for element in elements:
        leaves, structure = structures.flatten(element)
        waiting.append(leaves)
        rows += leaves[0].shape[0]
        while rows >= size:
            joined = [torch.cat(column) for column in zip(*waiting, strict=True)]
            yield pytree.tree_unflatten([tensor[:size] for tensor in joined], structure)
            rows -= size
            waiting = [[tensor[size:] for tensor in joined]] if rows else []
    if rows and not drop_last:
        yield pytree.tree_unflatten([torch.cat(column) for column in zip(*waiting, strict=True)], structure)
