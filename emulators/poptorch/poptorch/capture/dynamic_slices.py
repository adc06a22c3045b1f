"""`tensor[start:end]` with tensors for bounds: allowed where both are one value plus constants.

The distance between the bounds, and with it the shape of the slice, is then known at compile time.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from poptorch.capture.source import current_source, located
from poptorch.slicing import dynamic_slice

Tensor = torch.Tensor

_PLUS = {torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__}
_MINUS = {torch.sub, Tensor.sub, Tensor.__sub__}
_SAME = {Tensor.to, Tensor.int, Tensor.long, Tensor.clone}


class Bounds:
    """Which whole numbers in tensors are another one plus a constant."""

    def __init__(self):
        # By the id of a tensor: the tensor it comes from, what was added to that, and itself, to keep the id.
        self._known: dict[int, tuple[int, int, Tensor]] = {}

    def follow(self, function: Callable, args: tuple, result: Any) -> None:
        """Note what a call adds to its argument."""
        if function not in _PLUS | _MINUS | _SAME or not isinstance(result, Tensor):
            return
        tensor, other = args[0], args[-1]
        if result.is_floating_point() or not isinstance(tensor, Tensor):
            return
        if function in _SAME:
            added = 0
        elif isinstance(other, int):
            added = other if function in _PLUS else -other
        else:
            return
        root, before = self._root(tensor)
        self._known[id(result)] = root, before + added, result

    def _root(self, tensor: Tensor) -> tuple[int, int]:
        root, added, _ = self._known.setdefault(id(tensor), (id(tensor), 0, tensor))
        return root, added

    def slice(self, tensor: Tensor, index: Any) -> tuple[Tensor, Any]:
        """Take the slices of `tensor` whose bounds are tensors; returns the rest of the index too.

        Error unless the bounds of each are related by a constant.
        """
        indices = list(index) if isinstance(index, tuple) else [index]
        for dim, each in enumerate(indices):
            if isinstance(each, slice):
                each = indices[dim] = slice(*map(_number_if_on_host, (each.start, each.stop, each.step)))
                if not isinstance(each.start, Tensor) and not isinstance(each.stop, Tensor):
                    continue
                step = 1 if each.step is None else each.step
                tensor = dynamic_slice(tensor, dim, each.start, self._size(each), step)
                indices[dim] = slice(None)
        return tensor, tuple(indices)

    def _size(self, bounds: slice) -> int:
        if isinstance(bounds.start, Tensor) and isinstance(bounds.stop, Tensor):
            (start, after_start), (stop, after_stop) = self._root(bounds.start), self._root(bounds.stop)
            if start == stop:
                return after_stop - after_start
        raise located(
            "The start and end of a slice must be constants or be related by a constant, as in "
            "x[i : i + 4]: the shape of the slice is fixed when the program is compiled.",
            current_source(),
        )


def _number_if_on_host(bound: Any) -> Any:
    return int(bound) if isinstance(bound, Tensor) and not isinstance(bound, FakeTensor) else bound
