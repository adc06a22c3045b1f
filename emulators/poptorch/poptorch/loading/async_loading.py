"""Loading data in another process while the model works."""

import contextlib
import multiprocessing as mp
import time
import weakref
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import Any

import torch.multiprocessing

from poptorch.capture import structures
from poptorch.enums import SharingStrategy
from poptorch.errors import Error
from poptorch.loading.async_worker import RESTART, START, STOP, Task, work
from poptorch.loading.ring_buffer import EMPTY, END_OF_DATA, RingBuffer
from poptorch.log import logger

_START_METHODS = {
    SharingStrategy.SharedMemory: "spawn",
    SharingStrategy.FileSystem: "spawn",
    SharingStrategy.Fork: "fork",
    SharingStrategy.ForkServer: "forkserver",
}
# How long a worker that was told to stop may finish what it is loading, in seconds.
_PATIENCE_S = 5.0


class _Process:
    """A running worker, as the reader sees it."""

    def __init__(self, task: Task, strategy: SharingStrategy):
        context = torch.multiprocessing.get_context(_START_METHODS[strategy])
        if strategy == SharingStrategy.ForkServer:
            # Workers then start from a process that has imported everything already.
            context.set_forkserver_preload(["poptorch"])
        self._connection, theirs = context.Pipe()
        # Not a daemon: those may not have the processes of a DataLoader with num_workers for children.
        self._process = context.Process(target=work, args=(task, theirs))
        self._start()
        theirs.close()
        logger.debug("AsynchronousDataAccessor worker process: %d", self._process.pid)
        self.stop = weakref.finalize(self, _stop, self._process, self._connection)
        self._data_buffers: RingBuffer = self._first_word()

    def _start(self) -> None:
        try:
            self._process.start()
        except Exception as error:
            raise Error(f"AsynchronousDataAccessor: the worker thread failed to start: {error}") from error

    def _first_word(self) -> RingBuffer:
        try:
            word = self._connection.recv()
        except EOFError:
            word = "it ended without a word"
        if isinstance(word, RingBuffer):
            return word
        self.stop()
        raise Error(
            f"AsynchronousDataAccessor: the worker thread failed to start: {word}. Its output above tells "
            "where. Try the data set without asynchronous loading first."
        )

    @property
    def buffer(self) -> RingBuffer:
        """What the worker fills."""
        return self._data_buffers

    def tell(self, command: str) -> None:
        """Send a command."""
        self._connection.send(command)

    def restart(self) -> None:
        """Have the worker begin with the data again, and wait until it has."""
        self.tell(RESTART)
        answer = self._receive()
        if answer != RESTART:
            raise Error(f"AsynchronousDataAccessor: the worker failed: {answer}")
        self.buffer._position = 0

    def _receive(self) -> Any:
        try:
            return self._connection.recv()
        except EOFError:
            return "it ended unexpectedly"

    def check(self) -> None:
        """Error when the worker has given up."""
        if self._connection.poll():
            raise Error(f"AsynchronousDataAccessor: the worker failed: {self._receive()}")


def _stop(process: mp.process.BaseProcess, connection: Connection) -> None:
    with contextlib.suppress(OSError):
        connection.send(STOP)
    process.join(_PATIENCE_S)
    if process.is_alive():
        process.terminate()
        process.join()
    connection.close()


class AsynchronousDataAccessor:
    """Walks through a data set, or a loader, in a process of its own, some elements ahead.

    The tensors of an element are used again: they change once the next element is asked for, so clone what is
    to be kept. `buffer_size` elements are loaded ahead; `miss_sleep_time_in_ms` is how long either side
    sleeps when it has to wait. With `load_indefinitely` the next walk begins as soon as one ends; with
    `early_preload` the first begins at once, not when asked for. `rebatched_size` joins and cuts elements to
    that many rows. Error for a loader that is asynchronous already, and for a data set that is empty or
    fails.
    """

    def __init__(
        self,
        dataset: Iterable,
        buffer_size: int = 3,
        miss_sleep_time_in_ms: float = 0.1,
        load_indefinitely: bool = True,
        early_preload: bool = False,
        sharing_strategy: SharingStrategy = SharingStrategy.ForkServer,
        rebatched_size: int | None = None,
    ):
        if getattr(dataset, "_accessor", None) is not None:
            raise Error(
                "The DataLoader loads asynchronously already: it has a data accessor of its own. Use it as "
                "it is, or make it with DataLoaderMode.Sync."
            )
        self._dataset = dataset
        self._sleep = miss_sleep_time_in_ms / 1000
        self._rebatched_size = rebatched_size
        self._load_indefinitely = load_indefinitely
        drop_last = getattr(dataset, "rebatched_drop_last", True)
        task = Task(
            dataset,
            buffer_size,
            self._sleep,
            load_indefinitely,
            early_preload,
            rebatched_size,
            drop_last,
            dict(structures.custom_parsers),
            torch.multiprocessing.get_start_method(),
        )
        self._drop_last = drop_last
        self._worker: _Process | None = _Process(task, sharing_strategy)
        # Whether the worker has been told to load, is in the middle of the data, and lends an element.
        self._started = early_preload
        self._midway = self._lends = False

    def __len__(self) -> int:
        elements = len(self._dataset)
        counts_batches = hasattr(self._dataset, "rebatched_drop_last")
        if self._rebatched_size is None or counts_batches:
            return elements
        rows = elements * (getattr(self._dataset, "batch_size", None) or 1)
        return rows // self._rebatched_size if self._drop_last else -(-rows // self._rebatched_size)

    def terminate(self) -> None:
        """Stop the worker process; nothing can be loaded after that."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def __iter__(self) -> "AsynchronousDataAccessor":
        worker = self._running()
        if self._midway:
            worker.restart()
        elif not self._started:
            worker.tell(START)
        self._started, self._midway, self._lends = True, False, False
        return self

    def __next__(self) -> Any:
        worker = self._running()
        buffer = worker.buffer
        if self._lends:
            buffer.release()
            self._lends = False
        while buffer.state == EMPTY:
            worker.check()
            time.sleep(self._sleep)
        if buffer.state == END_OF_DATA:
            buffer.release()
            self._midway, self._started = False, self._load_indefinitely
            raise StopIteration
        self._lends = self._midway = True
        return buffer.element()

    def _running(self) -> _Process:
        if self._worker is None:
            raise Error("The data accessor was terminated; make a new one to load data again.")
        return self._worker
