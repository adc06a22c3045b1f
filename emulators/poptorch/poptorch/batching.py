"""How one call's tensors divide into micro-batches, and in which order the device takes them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from poptorch.enums import OutputMode
from poptorch.options import Options


@dataclass(frozen=True)
class Batching:
    """The loops of one call: device iterations, in each accumulation steps, in each replicas side by side.

    A row of a host tensor has the index [device iteration, accumulation step, replica, row of the
    micro-batch]. `keep_every` says which accumulation steps' results are returned, counted over all device
    iterations: every one, every n-th, or with the number of steps only the last; None means their sum.
    """

    device_iterations: int
    accumulation: int
    replicas: int
    keep_every: int | None

    @classmethod
    def of(cls, options: Options) -> "Batching":
        """Read the options, whose output mode must be settled."""
        iterations, accumulation = options.device_iterations, options.Training.gradient_accumulation
        keep_every = {
            OutputMode.All: 1,
            OutputMode.EveryN: options.output_return_period,
            OutputMode.Final: iterations * accumulation,
            OutputMode.Sum: None,
        }
        return cls(iterations, accumulation, options.replication_factor, keep_every[options.output_mode])

    @property
    def micro_batches(self) -> int:
        """Micro-batches in one call."""
        return self.device_iterations * self.accumulation * self.replicas

    def check(self, leaves: list[Any]) -> None:
        """AssertionError unless dimension 0 of every tensor divides into the micro-batches of one call."""
        count = self.micro_batches
        for tensor in leaves:
            if not isinstance(tensor, torch.Tensor):
                continue
            size = tensor.shape[0] if tensor.dim() else 1
            assert size % count == 0, (
                f"An input of shape {list(tensor.shape)} can't be cut into micro-batches: its batch "
                f"dimension, {size}, is not a multiple of {count} = deviceIterations "
                f"{self.device_iterations} x replicationFactor {self.replicas} x gradientAccumulation "
                f"{self.accumulation}. Every call of the model consumes that many micro-batches; see "
                "'Efficient data batching' in the PopTorch user guide."
            )

    def split(self, tensors: list[torch.Tensor]) -> Iterator[tuple[torch.Tensor, ...]]:
        """The micro-batches of each tensor, as views, in the order the device reads them."""
        if self.micro_batches == 1 or not tensors:
            return iter([tuple(tensors)] * self.micro_batches)
        slices = [tensor.split(tensor.shape[0] // self.micro_batches) for tensor in tensors]
        return zip(*slices, strict=True)
