"""Comparing results, whatever their structure."""

from typing import Any

import torch


def allclose(ref: Any, other: Any) -> bool:
    """Whether two tensors, or tuples or lists of them in the same structure, are close to each other."""
    if isinstance(ref, (tuple, list)):
        if not isinstance(other, (tuple, list)) or len(ref) != len(other):
            return False
        return all(allclose(first, second) for first, second in zip(ref, other, strict=True))
    if isinstance(ref, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.allclose(ref, other)
    return ref == other
