"""From a model and example arguments to an executable: checked, captured, and kept in a cache."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from poptorch.capture.program import Program
from poptorch.capture.trace import ModelAtWrapping, capture
from poptorch.errors import Error
from poptorch.executable import cache
from poptorch.executable.device import Target
from poptorch.log import logger
from poptorch.options import Options, validate
from poptorch.rules import refusals as rules
from poptorch.run.batching import Batching
from poptorch.run.inputs import Arguments, CompiledInputs, HostToDevice, check_device_takes
from poptorch.weights.device_weights import DeviceWeights


@dataclass(frozen=True)
class Executable:
    """A compiled model: the program for one micro-batch, and the arguments a call must have."""

    program: Program
    inputs: CompiledInputs


def compile_model(
    model: ModelAtWrapping,
    arguments: Arguments,
    leaves: list[Any],
    tree: pytree.TreeSpec,
    weights: DeviceWeights,
    options: Options,
    training: bool,
    to_device: HostToDevice,
) -> Executable:
    """Compile for the arguments that `leaves` and `tree` are.

    Error for what the machine or the program can't have; AssertionError when a tensor's dimension 0 does not
    divide into micro-batches.
    """
    target = Target(options)
    validate(options.toDict())
    _check_target(target, options)
    check_device_takes(leaves)
    batching = Batching.of(options)
    batching.check(leaves)
    micro_batch = next(batching.split(to_device(leaves)))

    def arguments_of(traced: tuple) -> tuple[tuple, dict]:
        remaining = iter(traced)
        filled = [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        return arguments.unflatten(filled, tree)

    program = capture(model, weights.of_replica(0), arguments_of, micro_batch, training, options)
    rules.check_replicated_buffers(
        program.updated_buffers, options.replication_factor, options.broadcast_buffers
    )
    _check_updatable_buffers(options, weights)
    executable = Executable(program, CompiledInputs.of(leaves, tree, arguments.signature))
    cache.keep(executable, options, target)
    logger.debug("Finished Poplar compilation")
    return executable


def _check_target(target: Target, options: Options) -> None:
    if options.log_cycle_count and target.is_model:
        raise Error(
            "Cycle count logging is only supported on actual IPU hardware. Leave the IPU model with "
            "useIpuModel(False), or set logCycleCount(False)."
        )


def _check_updatable_buffers(options: Options, weights: DeviceWeights) -> None:
    unknown = [name for name in options.updatable_named_buffers if name not in weights.buffers[0]]
    if unknown:
        raise Error(
            f"updatableNamedBuffers lists {', '.join(unknown)}, but the model has no such buffer; it has "
            f"{', '.join(weights.buffers[0]) or 'none'}."
        )
