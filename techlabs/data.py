"""The data of the labs, from installed packages: nothing is downloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.utils.data import TensorDataset


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
