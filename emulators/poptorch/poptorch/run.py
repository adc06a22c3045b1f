"""The loop on the device: micro-batches through the program and, in training, weight updates between them."""

from collections.abc import Sequence

import torch

from poptorch.batching import Batching
from poptorch.outputs import Collector
from poptorch.program import Program
from poptorch.update import WeightUpdate
from poptorch.weights import DeviceWeights


def fixed_arguments(
    program: Program, weights: DeviceWeights, replicas: int
) -> list[tuple[torch.Tensor, ...]]:
    """What each replica passes to the program before the inputs: its weights and the constants."""
    views = [weights.of_replica(replica) for replica in range(replicas)]
    return [(*(view[name] for name in program.weight_names), *program.constants) for view in views]


def infer(
    program: Program,
    fixed: Sequence[tuple[torch.Tensor, ...]],
    inputs: list[torch.Tensor],
    batching: Batching,
) -> list[torch.Tensor]:
    """Run every micro-batch and return the outputs that the output mode asks for."""
    collector = Collector(batching)
    micro_batches = batching.split(inputs)
    with torch.no_grad():
        for _ in range(batching.device_iterations):
            for weights in fixed:
                collector.add(program.run(*weights, *next(micro_batches)))
        return collector.combined(program.aliasing_outputs)


def train(
    program: Program,
    fixed: Sequence[tuple[torch.Tensor, ...]],
    inputs: list[torch.Tensor],
    batching: Batching,
    update: WeightUpdate,
) -> list[torch.Tensor]:
    """Run every micro-batch and its backward pass, updating the weights once per device iteration.

    Gradients of a device iteration's micro-batches, over accumulation steps and replicas, add up in the
    parameters.
    """
    collector = Collector(batching)
    micro_batches = batching.split(inputs)
    with torch.enable_grad():
        for _ in range(batching.device_iterations):
            for _ in range(batching.accumulation):
                for weights in fixed:
                    *outputs, loss = program.run(*weights, *next(micro_batches))
                    update.backward(loss)
                    collector.add(outputs)
            update.step()
    return collector.combined(program.aliasing_outputs)


class RandomNumbers:
    """The device's random numbers, apart from the host's.

    Inside a `with` block PyTorch draws from the device's sequence; the host's goes on where it was
    afterwards.
    """

    def __init__(self, seed: int | None):
        generator = torch.Generator()
        if seed is None:
            generator.seed()
        else:
            generator.manual_seed(seed)
        self._device = generator.get_state()

    def __enter__(self) -> None:
        self._host = torch.get_rng_state()
        torch.set_rng_state(self._device)

    def __exit__(self, *_: object) -> None:
        self._device = torch.get_rng_state()
        torch.set_rng_state(self._host)
