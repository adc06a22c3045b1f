"""A captured program: what one micro-batch costs the device to compute, and the function that computes it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from poptorch.capture.schedule import Place, Schedule
from poptorch.capture.source import SourceLine


@dataclass(frozen=True)
class Value:
    """A tensor in the program, by the name of the operation, weight or input that makes it."""

    name: str


@dataclass(frozen=True)
class TensorType:
    """Shape and element type of one result, for one micro-batch."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')}({', '.join(map(str, self.shape))})"


@dataclass(frozen=True)
class Operation:
    """One ATen operation on one micro-batch.

    `op` is the overload's name ("aten.conv2d.default"); `arguments` its positional and keyword arguments,
    each tensor a `Value`; `module` the path of the sub-module that called it ("features.0", "" for the model
    itself); `source` the learner's line, None for what PyTorch added by itself; `place` where it runs;
    `attributes` what the learner noted on it: `scope` (names of `NameScope`s), `attributes` (`Attribute`),
    `multi_conv`, `serialised` (mode, factor, keep precision), `available_memory_proportion`,
    `recomputation_checkpoint`, `overlap` (an `OverlapMode`'s value).
    """

    name: str
    op: str
    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    outputs: tuple[TensorType, ...]
    module: str
    source: SourceLine | None
    place: Place
    attributes: dict[str, Any]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the tensors it reads."""
        leaves = pytree.tree_leaves(self.arguments)
        return tuple(leaf.name for leaf in leaves if isinstance(leaf, Value))


@dataclass(frozen=True)
class Program:
    """What capture makes of a model's `forward` for one micro-batch.

    `run(*weights, *constants, *inputs)` computes it, eagerly and differentiably: weights in the order of
    `weight_names`, then the inputs' tensors. It returns the output tensors and, in training, the loss after
    them. `inputs` and `weights`, which hold the constants too, are by the names of `Value`s that operations
    read. `loss` is the name of the operation that computes it. `updated_buffers` are those that a run
    changes; `schedule` says which operations run on which IPU, and when.
    """

    operations: tuple[Operation, ...]
    inputs: dict[str, TensorType]
    weights: dict[str, TensorType]
    weight_names: tuple[str, ...]
    constants: tuple[torch.Tensor, ...]
    updated_buffers: tuple[str, ...]
    loss: str | None
    output_leaves: tuple[Any, ...]
    output_tree: pytree.TreeSpec
    aliasing_outputs: tuple[bool, ...]
    uses_random_numbers: bool
    schedule: Schedule
    run: Callable[..., tuple[torch.Tensor, ...]]

    def outputs(self, tensors: list[torch.Tensor]) -> Any:
        """The structure that `forward` returned, with `tensors` in the places of its tensors."""
        remaining = iter(tensors)
        leaves = [next(remaining) if isinstance(leaf, TensorType) else leaf for leaf in self.output_leaves]
        return pytree.tree_unflatten(leaves, self.output_tree)
