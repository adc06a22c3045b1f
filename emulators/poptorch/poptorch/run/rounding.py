"""Rounding to float16 at random: up or down with probabilities that keep the expected value."""

from typing import Any

import torch


def stochastic(values: torch.Tensor) -> torch.Tensor:
    """float32 `values` as float16, each to one of its two neighbours; the nearer the likelier.

    Values beyond the range of float16 become infinite, as they do when rounded to nearest.
    """
    nearest = values.half()
    error = values - nearest.float()
    other = torch.nextafter(nearest, torch.where(error > 0, torch.inf, -torch.inf).half())
    gap = (other.float() - nearest.float()).abs()
    # NaN where the gap is infinite or there is no error: nearest stays.
    go_on = torch.rand_like(values) < error.abs() / gap
    return torch.where(go_on & (error != 0), other, nearest)


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(_context: Any, values: torch.Tensor) -> torch.Tensor:
        return stochastic(values)

    @staticmethod
    def backward(_context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.float()


def rounded(values: torch.Tensor) -> torch.Tensor:
    """`stochastic`, differentiable: gradients pass as if nothing were rounded."""
    return _Rounded.apply(values)
