"""Gradients of several micro-batches and replicas become one."""

import torch

from poptorch.enums import MeanReductionStrategy, ReductionType
from poptorch.options import Options


class Accumulators:
    """Sums or means of gradients, in a type of their own.

    Where that is the type of the weights and the division comes last, PyTorch's `grad` does the summing;
    otherwise tensors apart from it.
    """

    def __init__(self, parameters: list[torch.nn.Parameter], options: Options, dtype: torch.dtype):
        training = options.Training
        self._parameters = parameters
        # Gradients that are summed into one accumulator, over accumulation steps and replicas.
        self._count = training.gradient_accumulation * options.replication_factor
        self._mean = training.accumulation_and_replication_reduction_type == ReductionType.Mean
        strategy = training.meanAccumulationAndReplicationReductionStrategy
        self._running = self._mean and strategy == MeanReductionStrategy.Running
        other_type = any(parameter.dtype != dtype for parameter in parameters)
        self._own: list[torch.Tensor | None] | None = None
        if self._count > 1 and (self._running or other_type):
            self._own = [None] * len(parameters)
        self._dtype = dtype
        self._taken = 0

    def take(self) -> None:
        """Add the gradients that a backward pass left behind."""
        if self._own is None:
            return
        self._taken += 1
        for index, parameter in enumerate(self._parameters):
            gradient, parameter.grad = parameter.grad, None
            if gradient is None:
                continue
            if self._running:
                gradient = gradient / self._taken
            total = self._own[index]
            if total is None:
                self._own[index] = gradient.to(self._dtype, copy=True)
            elif self._running:
                total.mul_((self._taken - 1) / self._taken).add_(gradient)
            else:
                total.add_(gradient)

    def gradients(self) -> list[torch.Tensor | None]:
        """The accumulated gradient of each parameter; None for one that had no part in the loss."""
        if self._own is not None:
            return self._own
        return [parameter.grad for parameter in self._parameters]

    def reduce(self, gradients: list[torch.Tensor]) -> None:
        """Divide sums by the number of gradients in them, in place, where the mean was asked for."""
        if not self._mean or self._count == 1 or not gradients:
            return
        # A running mean has counted the backward passes of all replicas already.
        if not (self._running and self._own is not None):
            torch._foreach_mul_(gradients, 1 / self._count)

    def clear(self) -> None:
        """Start anew."""
        self._taken = 0
        if self._own is not None:
            self._own = [None] * len(self._parameters)
        for parameter in self._parameters:
            parameter.grad = None
