"""A program captured for its cost alone: nothing is computed, and the model may be on the meta device."""

import torch

from poptorch.capture.program import Program
from poptorch.capture.trace import ModelAtWrapping, capture
from poptorch.options import Options


def captured(
    model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], options: Options, training: bool = True
) -> Program:
    """Trace `model(*inputs)` for one micro-batch of inputs. Error for what the chip refuses."""
    weights = dict(model.named_parameters(remove_duplicate=False))
    weights |= dict(model.named_buffers(remove_duplicate=False))
    return capture(
        ModelAtWrapping(model), weights, lambda traced: (tuple(traced), {}), inputs, training, options
    )
