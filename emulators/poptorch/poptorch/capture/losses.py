"""Loss functions that can't be captured as PyTorch has them, done as the device does."""

from typing import Any

import torch
import torch.nn.functional as F

from poptorch.ops import identity_loss, tracing

_library = torch.library.Library("poptorch_emulated", "FRAGMENT")
# Capture would look into target_lengths for the size of an intermediate result.
_library.define(
    "ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, int blank, "
    "int reduction, bool zero_infinity) -> Tensor"
)
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}

# Loss functions that PyTorch composes of other operations: their result is the loss.
_COMPOSED = {F.kl_div, F.multilabel_soft_margin_loss, F.triplet_margin_with_distance_loss}


def _ctc_loss(log_probs: torch.Tensor, *arguments: Any) -> torch.Tensor:
    if tracing() is not None:
        return log_probs.sum() if arguments[4] else log_probs.sum((0, 2))
    return torch.ctc_loss(log_probs, *arguments)


_library.impl("ctc_loss", _ctc_loss, "CompositeImplicitAutograd")


def ctc_loss(
    log_probs: torch.Tensor,
    targets: torch.Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> torch.Tensor:
    """`torch.nn.functional.ctc_loss` as one operation; lengths are tensors or sequences of numbers."""
    lengths = [
        given if isinstance(given, torch.Tensor) else torch.tensor(given, dtype=torch.int32)
        for given in (input_lengths, target_lengths)
    ]
    return torch.ops.poptorch_emulated.ctc_loss(
        log_probs, targets, *lengths, blank, _REDUCTIONS[reduction], zero_infinity
    )


def marked(function: Any, result: torch.Tensor) -> torch.Tensor:
    """The result of a call, marked as the loss if that is what it is and no operation says so."""
    return identity_loss(result, "none") if function in _COMPOSED else result
