"""The loop on the device: micro-batches through the program and, in training, weight updates between them."""

from collections.abc import Sequence

import torch

from poptorch.capture.program import Program
from poptorch.run.batching import Batching
from poptorch.run.outputs import Collector
from poptorch.update.weight_update import WeightUpdate
from poptorch.weights.device_weights import DeviceWeights


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
    collector: Collector,
) -> list[torch.Tensor]:
    """Run every micro-batch and return the outputs that the collector keeps."""
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
    collector: Collector,
    update: WeightUpdate,
) -> list[torch.Tensor]:
    """Run every micro-batch and its backward pass, updating the weights once per device iteration.

    Gradients of a device iteration's micro-batches, over accumulation steps and replicas, add up in the
    parameters.
    """
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
    afterwards. `state` is the seed and what the sequence has come to, as whole numbers.
    """

    def __init__(self, seed: int | None):
        generator = torch.Generator()
        self._seed = generator.seed() if seed is None else seed
        generator.manual_seed(self._seed)
        self._device = generator.get_state()

    @property
    def state(self) -> list[int]:
        """The seed, and after it the generator's state."""
        return [self._seed, *self._device.tolist()]

    @state.setter
    def state(self, state: list[int]) -> None:
        self._seed = state[0]
        self._device = torch.tensor(state[1:], dtype=torch.uint8)

    def __enter__(self) -> None:
        self._host = torch.get_rng_state()
        torch.set_rng_state(self._device)

    def __exit__(self, *_: object) -> None:
        self._device = torch.get_rng_state()
        torch.set_rng_state(self._host)
