"""Data in the sizes a model's calls consume."""

import logging

import torch

from poptorch.enums import DataLoaderMode
from poptorch.errors import Error
from poptorch.options import Options

logger = logging.getLogger("poptorch")


class DataLoader(torch.utils.data.DataLoader):
    """A `torch.utils.data.DataLoader` each of whose items feeds one call of the model.

    An item has `batch_size` x device iterations x replicas x gradient accumulation elements. An incomplete
    last item would not fit the compiled model, so it is dropped unless `drop_last` is False. Building the
    loader freezes the options.
    """

    def __init__(
        self,
        options: Options,
        dataset: torch.utils.data.Dataset,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        num_workers: int = 0,
        drop_last: bool = True,
        mode: DataLoaderMode = DataLoaderMode.Sync,
        **kwargs,
    ):
        if mode != DataLoaderMode.Sync:
            raise Error(f"{mode} is not emulated; use DataLoaderMode.Sync, which yields the same batches.")
        self._options = options
        self._combined_batch_size = None
        options._freeze()
        if batch_size is None:
            super().__init__(dataset, batch_size=None, shuffle=shuffle, num_workers=num_workers, **kwargs)
            return
        self._combined_batch_size = batch_size * options._micro_batches_per_call()
        if not drop_last:
            self._warn_if_incomplete(dataset)
        super().__init__(
            dataset,
            batch_size=self._combined_batch_size,
            shuffle=shuffle,
            num_workers=num_workers,
            drop_last=drop_last,
            **kwargs,
        )

    def _warn_if_incomplete(self, dataset: torch.utils.data.Dataset) -> None:
        if isinstance(dataset, torch.utils.data.IterableDataset):
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
        """Elements that one call of the model consumes; None when the data set makes the batches."""
        return self._combined_batch_size

    @property
    def options(self) -> Options:
        """The options the loader was made with, frozen."""
        return self._options

    def terminate(self) -> None:
        """Stop the worker process; the synchronous loader has none."""
