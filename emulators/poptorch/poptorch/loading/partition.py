"""Which elements of a data set a process takes, and how a sampler's batches become a call's."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.data import Dataset

from poptorch.capture import structures


class PartitionedDataset(Dataset):
    """One process's share of a data set: consecutive elements, or those of a shuffle that all agree on.

    Every process takes the same number of elements, a multiple of `granularity`. What is left over comes
    first in the next epoch, if the data is shuffled.
    """

    def __init__(
        self, dataset: Dataset, process: int, processes: int, granularity: int, shuffle_seed: int | None
    ):
        self.dataset = dataset
        self._process = process
        self._share = len(dataset) // (processes * granularity) * granularity
        self._used = self._share * processes
        self._seed = shuffle_seed
        # Workers of a loader have copies of this object, but see the same memory.
        self._order = torch.arange(len(dataset)).share_memory_()
        self._epochs = 0

    def new_epoch(self) -> None:
        """Shuffle, in the same way in every process, if the data is to be shuffled."""
        if self._seed is None:
            return
        generator = torch.Generator().manual_seed(self._seed + self._epochs)
        self._epochs += 1
        left_over, used = self._order[self._used :].clone(), self._order[: self._used].clone()
        used = used[torch.randperm(len(used), generator=generator)]
        # New to this epoch are those left over from the last; they replace the last of the others.
        kept = len(used) - len(left_over)
        if kept >= 0:
            taken = torch.cat([left_over, used[:kept]])
            taken = taken[torch.randperm(len(taken), generator=generator)]
            self._order.copy_(torch.cat([taken, used[kept:]]))
        else:
            every = torch.cat([left_over, used])
            self._order.copy_(every[torch.randperm(len(every), generator=generator)])

    def __len__(self) -> int:
        return self._share

    def __getitem__(self, index: int) -> Any:
        if index >= self._share:
            raise IndexError(index)
        return self.dataset[int(self._order[self._process * self._share + index])]


class CombinedBatchSampler:
    """Lists of `count` consecutive batches of a sampler; an incomplete last list is left out if asked."""

    def __init__(self, sampler: Iterable, count: int, drop_last: bool):
        self._sampler = sampler
        self._count = count
        self._drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        batches: list[Any] = []
        for batch in self._sampler:
            batches.append(batch)
            if len(batches) == self._count:
                yield batches
                batches = []
        if batches and not self._drop_last:
            yield batches

    def __len__(self) -> int:
        batches = len(self._sampler)
        return batches // self._count if self._drop_last else -(-batches // self._count)


class BatchedDataset(Dataset):
    """A data set whose element for a list of indices is the collated batch of them."""

    def __init__(self, dataset: Dataset, collate: Callable[[list[Any]], Any]):
        self.dataset = dataset
        self._collate = collate

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, indices: list[Any]) -> Any:
        return self._collate([self.dataset[index] for index in indices])


def concatenated(batches: list[Any]) -> Any:
    """Batches of the same structure, joined along dimension 0 of every tensor."""
    columns, structure = [], None
    for batch in batches:
        leaves, structure = structures.flatten(batch)
        columns.append(leaves)
    joined = [torch.cat(column) for column in zip(*columns, strict=True)]
    return pytree.tree_unflatten(joined, structure)
