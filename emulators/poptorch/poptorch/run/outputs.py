"""What a call returns: some micro-batches' results, or their sum, as one tensor."""

import copy
import time
from collections.abc import Sequence
from typing import Any

import torch

from poptorch.errors import Error
from poptorch.run.batching import Batching

_DTYPES_ON_HOST = {torch.int64: torch.int32, torch.float64: torch.float32}


class DeviceOutput(torch.Tensor):
    """A result that has left the device: an ordinary tensor, but with nothing to back-propagate to."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def backward(self, *args: Any, **kwargs: Any) -> None:
        """Error: training happened on the device already."""
        raise Error(
            "backward() can't be called on what the device returned, and need not be: a training model "
            "computes the gradients and updates the weights on every call. Remove loss.backward() and "
            "optimizer.step()."
        )

    def _ordinary(self) -> torch.Tensor:
        return self.as_subclass(torch.Tensor)

    def __repr__(self, **kwargs: Any) -> str:
        return self._ordinary().__repr__(**kwargs)

    def __format__(self, specification: str) -> str:
        return format(self._ordinary(), specification)

    def __reduce_ex__(self, protocol: int) -> tuple:
        return self._ordinary().__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict) -> torch.Tensor:
        return copy.deepcopy(self._ordinary(), memo)


class Collector:
    """Keeps those micro-batches' results that the output mode asks for, in the order they arrive.

    `begun` and `ready` are the times, measured in seconds, at which micro-batches were begun and kept results
    were there.
    """

    def __init__(self, batching: Batching):
        self._replicas = batching.replicas
        self._keep_every = batching.keep_every
        self._kept: list[list[torch.Tensor]] = []
        self._seen = 0
        self.begun: list[float] = []
        self.ready: list[float] = []
        self._last = time.perf_counter()

    def add(self, results: Sequence[torch.Tensor]) -> None:
        """Take one micro-batch's results."""
        step, replica = divmod(self._seen, self._replicas)
        self._seen += 1
        self.begun.append(self._last)
        self._last = time.perf_counter()
        if self._keep_every is None:
            self.ready[replica : replica + 1] = [self._last]
        elif (step + 1) % self._keep_every == 0:
            self.ready.append(self._last)
        if self._keep_every is not None:
            if (step + 1) % self._keep_every == 0:
                self._kept.append([result.detach() for result in results])
        elif step == 0:
            self._kept.append([result.detach().clone() for result in results])
        else:
            for total, result in zip(self._kept[replica], results, strict=True):
                total += result.detach()

    def combined(self, aliasing: Sequence[bool]) -> list[torch.Tensor]:
        """For each output, the kept results joined along dimension 0; several scalars make a vector.

        `aliasing` marks outputs that may share memory with an input or a weight.
        """
        columns = zip(*self._kept, strict=True)
        return [_joined(results, alias) for results, alias in zip(columns, aliasing, strict=True)]


def _joined(results: Sequence[torch.Tensor], aliasing: bool) -> torch.Tensor:
    first = results[0]
    if len(results) > 1:
        first = torch.cat(results) if first.dim() else torch.stack(results)
    elif aliasing:
        first = first.clone()
    if first.dtype in _DTYPES_ON_HOST:
        first = first.to(_DTYPES_ON_HOST[first.dtype])
    return first.as_subclass(DeviceOutput)
