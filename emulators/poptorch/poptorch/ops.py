"""The loss, and what a model may ask about where it runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from poptorch.errors import Error

REDUCTIONS = ("sum", "mean", "none")

# A node of its own in the captured graph, so that the loss can be found there; on the host it is its
# reduction.
_library = torch.library.Library("poptorch_emulated", "DEF")
_library.define("identity_loss(Tensor x, str reduction) -> Tensor")


def _reduce(x: torch.Tensor, reduction: str) -> torch.Tensor:
    if reduction == "none":
        return x.clone()
    return x.sum() if reduction == "sum" else x.mean()


_library.impl("identity_loss", _reduce, "CompositeImplicitAutograd")


def identity_loss(x: torch.Tensor, reduction: str) -> torch.Tensor:
    """Mark `x`, of any shape, as the loss to back-propagate from.

    `reduction` is "sum", "mean" (the result is 0-d) or "none" (the shape of `x`). Outside the machine it only
    reduces. Any other reduction is an AssertionError.
    """
    assert reduction in REDUCTIONS, (
        f"identity_loss got reduction {reduction!r}; it knows {', '.join(REDUCTIONS)}."
    )
    return torch.ops.poptorch_emulated.identity_loss(x, reduction)


@dataclass(frozen=True)
class Tracing:
    """A model that is being captured."""

    training: bool


_tracing: Tracing | None = None


def tracing() -> Tracing | None:
    """The capture that the calling code is part of; None on the host."""
    return _tracing


def isRunningOnIpu() -> bool:
    """Whether the calling code is being traced for the machine: inside `forward`, never in `__init__`."""
    return _tracing is not None


@contextmanager
def running_on_ipu(state: Tracing | None) -> Iterator[None]:
    """Make `isRunningOnIpu` true inside the block, or false for None."""
    global _tracing
    outer, _tracing = _tracing, state
    try:
        yield
    finally:
        _tracing = outer


def getIpuTensorId(x: torch.Tensor) -> int:
    """A number that identifies a tensor while `forward` is traced; Error outside it."""
    if not isRunningOnIpu():
        raise Error("Only a tensor inside a model's forward is on the device and has a number there.")
    return id(x)
