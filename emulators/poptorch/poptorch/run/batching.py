"""How one call's tensors divide into micro-batches, and in which order the device takes them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from poptorch.enums import CommGroupType, OutputMode
from poptorch.options import Options


@dataclass(frozen=True)
class Batching:
    """The loops of one call: device iterations, in each accumulation steps, in each replicas side by side.

    A row of a host tensor has the index [device iteration, accumulation step, replica, row of the
    micro-batch]. Replicas in groups read the same rows; a group's are together, so that the index is [group,
    device iteration, accumulation step, row of the micro-batch]. `group_of` gives each replica's group.
    `keep_every` says which accumulation steps' results are returned, counted over all device
    iterations: every one, every n-th, or with the number of steps only the last; None means their sum.
    """

    device_iterations: int
    accumulation: int
    replicas: int
    group_of: tuple[int, ...]
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
        groups = _groups(options)
        return cls(iterations, accumulation, len(groups), groups, keep_every[options.output_mode])

    @property
    def groups(self) -> int:
        """Groups of replicas that read different rows."""
        return len(set(self.group_of))

    @property
    def micro_batches(self) -> int:
        """Micro-batches that a call's tensors hold."""
        return self.device_iterations * self.accumulation * self.groups

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
                f"{self.device_iterations} x {self._replicas_named()} x gradientAccumulation "
                f"{self.accumulation}. Every call of the model consumes that many micro-batches; see "
                "'Efficient data batching' in the PopTorch user guide."
            )

    def split(self, tensors: list[torch.Tensor]) -> Iterator[tuple[torch.Tensor, ...]]:
        """The micro-batch that each run of the program takes, as views, replicas innermost."""
        runs = self.device_iterations * self.accumulation * self.replicas
        if self.micro_batches == 1 or not tensors:
            return iter([tuple(tensors)] * runs)
        slices = [tensor.split(tensor.shape[0] // self.micro_batches) for tensor in tensors]
        micro_batches = zip(*slices, strict=True)
        return micro_batches if self.groups == self.replicas else self._shared(list(micro_batches))

    def _shared(self, micro_batches: list[tuple[torch.Tensor, ...]]) -> Iterator[tuple[torch.Tensor, ...]]:
        steps = self.device_iterations * self.accumulation
        return (micro_batches[group * steps + step] for step in range(steps) for group in self.group_of)

    def _replicas_named(self) -> str:
        if self.groups == self.replicas:
            return f"replicationFactor {self.replicas}"
        return f"(replicationFactor {self.replicas} / input_group_size {self.replicas // self.groups})"


def _groups(options: Options) -> tuple[int, ...]:
    replicas, size = options.replication_factor, options.input_group_size
    if options.input_group_type is CommGroupType.Orthogonal:
        return tuple(replica % (replicas // size) for replica in range(replicas))
    return tuple(replica // size for replica in range(replicas))
