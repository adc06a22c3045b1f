"""Data in the sizes a model's calls consume."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import IterableDataset, default_collate

from poptorch.enums import DataLoaderMode
from poptorch.errors import Error
from poptorch.loading.async_loading import AsynchronousDataAccessor
from poptorch.loading.partition import BatchedDataset, CombinedBatchSampler, PartitionedDataset, concatenated
from poptorch.log import logger
from poptorch.options import Options


class DataLoader(torch.utils.data.DataLoader):
    """A `torch.utils.data.DataLoader` each of whose items feeds one call of the model.

    An item has `batch_size` x device iterations x groups of replicas x gradient accumulation elements. An
    incomplete last item would not fit the compiled model, so it is dropped unless `drop_last` is False.
    Building the loader freezes the options.

    With several processes each takes its part of the data set, unless `auto_distributed_partitioning` is
    False. `mode` says who assembles the items: this process, or (Async) one that works ahead, with
    `async_options` for its AsynchronousDataAccessor. In AsyncRebatched mode that process makes items from
    pieces of `rebatched_worker_size` elements, so that workers which each see a part of the data lose nothing
    at its end. `batch_sampler` yields lists of indices, each a micro-batch; it excludes `batch_size` and
    `shuffle` (Error), and partitioning.
    """

    def __init__(
        self,
        options: Options,
        dataset: torch.utils.data.Dataset,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        num_workers: int = 0,
        drop_last: bool = True,
        persistent_workers: bool | None = None,
        auto_distributed_partitioning: bool = True,
        mode: DataLoaderMode = DataLoaderMode.Sync,
        async_options: dict[str, Any] | None = None,
        rebatched_worker_size: int | None = None,
        batch_sampler: torch.utils.data.Sampler[Sequence] | Iterable[Sequence] | None = None,
        **kwargs: Any,
    ):
        self._accessor: AsynchronousDataAccessor | None = None
        self._options = options
        self._partition: PartitionedDataset | None = None
        self._combined_batch_size: int | None = None
        self._rebatched_size: int | None = None
        self.rebatched_drop_last = drop_last
        options._freeze()
        kwargs["num_workers"] = num_workers
        kwargs["persistent_workers"] = num_workers > 0 if persistent_workers is None else persistent_workers
        distributed = options.Distributed.numProcesses > 1 and auto_distributed_partitioning
        if isinstance(dataset, IterableDataset):
            _check_iterable(distributed, num_workers, kwargs)
        if batch_sampler is not None:
            _check_batch_sampler(batch_size, shuffle, distributed)
            self._init_with_sampler(dataset, batch_sampler, drop_last, kwargs)
        elif batch_size is None:
            assert not distributed, (
                "batch_size=None leaves the batches to the data set, so it can't be split over processes. "
                "Set auto_distributed_partitioning=False and split it yourself."
            )
            super().__init__(dataset, batch_size=None, shuffle=shuffle, **kwargs)
        else:
            self._combined_batch_size = batch_size * options._micro_batches_per_call()
            if distributed:
                dataset, shuffle = self._partitioned(dataset, shuffle), False
            if not drop_last:
                self._warn_if_incomplete(dataset)
            rebatched = mode == DataLoaderMode.AsyncRebatched or (
                mode == DataLoaderMode.Async and not drop_last
            )
            size = self._combined_batch_size
            if rebatched:
                self._rebatched_size, drop_last = size, False
                size = rebatched_worker_size or size
            super().__init__(dataset, batch_size=size, shuffle=shuffle, drop_last=drop_last, **kwargs)
        if mode != DataLoaderMode.Sync:
            self._accessor = AsynchronousDataAccessor(
                self, rebatched_size=self._rebatched_size, **(async_options or {})
            )

    def _init_with_sampler(
        self, dataset: torch.utils.data.Dataset, sampler: Iterable, drop_last: bool, kwargs: dict[str, Any]
    ) -> None:
        """Each item joins as many of the sampler's batches as a call has micro-batches."""
        batches = self._options._micro_batches_per_call()
        collate = kwargs.pop("collate_fn", None) or default_collate
        super().__init__(
            BatchedDataset(dataset, collate),
            batch_sampler=CombinedBatchSampler(sampler, batches, drop_last),
            collate_fn=concatenated,
            **kwargs,
        )

    def _partitioned(self, dataset: torch.utils.data.Dataset, shuffle: bool | None) -> PartitionedDataset:
        seed = self._options.random_seed
        assert not shuffle or seed is not None, (
            "Processes can only shuffle one data set alike with the same seed: set options.randomSeed."
        )
        distributed = self._options.Distributed
        granularity = self._combined_batch_size if self.rebatched_drop_last else 1
        self._partition = PartitionedDataset(
            dataset, distributed.processId, distributed.numProcesses, granularity, seed if shuffle else None
        )
        return self._partition

    def _warn_if_incomplete(self, dataset: torch.utils.data.Dataset) -> None:
        if isinstance(dataset, IterableDataset):
            return
        left_over = len(dataset) % self._combined_batch_size
        if left_over:
            logger.warning(
                "The data set's %d elements leave a last batch of %d where a call of the model takes %d; "
                "the compiled model refuses it. Leave drop_last at True or choose a size that divides the "
                "data set.",
                len(dataset),
                left_over,
                self._combined_batch_size,
            )

    @property
    def combinedBatchSize(self) -> int | None:
        """Elements that one call of the model consumes; None when the data set or a sampler makes batches."""
        return self._combined_batch_size

    @property
    def options(self) -> Options:
        """The options the loader was made with, frozen."""
        return self._options

    def terminate(self) -> None:
        """Stop the process that loads ahead; a synchronous loader has none."""
        if self._accessor is not None:
            self._accessor.terminate()

    def __len__(self) -> int:
        if self._rebatched_size is None:
            return super().__len__()
        rows = len(self.dataset)
        size = self._rebatched_size
        return rows // size if self.rebatched_drop_last else -(-rows // size)

    def __iter__(self) -> Iterator[Any]:
        if self._accessor is not None:
            return iter(self._accessor)
        if self._partition is not None:
            self._partition.new_epoch()
        return super().__iter__()


def _check_iterable(distributed: bool, num_workers: int, kwargs: dict[str, Any]) -> None:
    assert not distributed, (
        "An iterable data set can't be split over processes, as its elements have no numbers. Set "
        "auto_distributed_partitioning=False and have the data set yield this process's part."
    )
    if num_workers > 1 and kwargs.get("worker_init_fn") is None:
        logger.warning(
            "Each of the %d workers walks through the whole iterable data set, so its elements come %d "
            "times. Give worker_init_fn a function that has each worker take its part.",
            num_workers,
            num_workers,
        )


def _check_batch_sampler(batch_size: int | None, shuffle: bool | None, distributed: bool) -> None:
    if batch_size != 1 or shuffle:
        raise Error(
            "batch_sampler makes the batches and their order: leave out batch_size and shuffle, or it."
        )
    if distributed:
        raise Error(
            "A batch_sampler can't be split over processes: set auto_distributed_partitioning=False, and "
            "have the sampler yield this process's part."
        )
