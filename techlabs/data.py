"""The data of the labs, from installed packages: nothing is downloaded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.utils.data import Dataset, TensorDataset


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Handwritten digits: 1437 training and 360 test images, always the same split.

    From scikit-learn's `load_digits`, the test set of the UCI Optical Recognition of Handwritten Digits data.

    Returns:
        (train, test): items are (image, label); image float32 [1, 8, 8] in 0..1, label int64 in 0..9.
    """
    import torch
    from sklearn.datasets import load_digits
    from torch.utils.data import TensorDataset

    source = load_digits()
    images = torch.tensor(source.images / 16, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(source.target, dtype=torch.int64)
    # Shuffled once: nothing says that the order of the file is random.
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:1437], order[1437:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def slowly(dataset: Dataset, milliseconds: float) -> Dataset:
    """The same dataset behind a slow store: each item takes `milliseconds` longer to arrive."""
    return _Slow(dataset, milliseconds / 1000)


class _Slow:
    # A class of this module and not of a notebook: loader processes have to import it.

    def __init__(self, dataset: Dataset, seconds: float):
        self._dataset, self._seconds = dataset, seconds

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        time.sleep(self._seconds)
        return self._dataset[index]
