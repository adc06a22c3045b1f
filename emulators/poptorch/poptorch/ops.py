"""Functions a model's `forward` may call, and what it may ask about where it runs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

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


_running_on_ipu = False


def isRunningOnIpu() -> bool:
    """Whether the calling code is being traced for the machine: inside `forward`, never in `__init__`."""
    return _running_on_ipu


@contextmanager
def running_on_ipu() -> Iterator[None]:
    """Make `isRunningOnIpu` true inside the block."""
    global _running_on_ipu
    outer, _running_on_ipu = _running_on_ipu, True
    try:
        yield
    finally:
        _running_on_ipu = outer


# One process may reserve at most this many IPUs.
MOST_IPUS = 64


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """Whether a device of `num_ipus` IPUs can be had.

    The emulated machine counts as one; as with the real one, asking for the IPU model by environment variable
    makes the answer False.
    """
    model_asked_for = any(
        os.environ.get(name, "0") != "0" for name in ("POPTORCH_IPU_MODEL", "POPTORCH_SMALL_IPU_MODEL")
    )
    return not model_asked_for and num_ipus <= MOST_IPUS


def ipuHardwareVersion() -> int:
    """The generation of the emulated hardware: 2, the GC200. AssertionError where none is available."""
    assert ipuHardwareIsAvailable(), (
        "There is no hardware to ask: POPTORCH_IPU_MODEL or POPTORCH_SMALL_IPU_MODEL is set."
    )
    return 2
