"""A captured operation with its operands' types looked up, and its arguments by the names of its schema."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from poptorch.capture.program import Operation, Program, TensorType, Value

# Operations whose result no gradient goes through.
_STOPS = ("aten.detach.default", "aten.detach_.default")


@dataclass(frozen=True)
class Operand:
    """A tensor an operation reads. `wants_gradient`: training computes its gradient; `weight`: the model
    holds it.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    wants_gradient: bool
    weight: bool

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Call:
    """One operation, ready to be costed.

    `name` is ATen's without the overload ("conv2d"); `arguments` are by name, defaults included, tensors as
    `Operand`; `partials` is the type of matrix products' partial results.
    """

    name: str
    arguments: Mapping[str, Any]
    outputs: tuple[TensorType, ...]
    partials: torch.dtype

    def __getitem__(self, argument: str) -> Any:
        return self.arguments[argument]

    @property
    def operands(self) -> list[Operand]:
        """All tensors it reads, in order."""
        return [leaf for leaf in pytree.tree_leaves(dict(self.arguments)) if isinstance(leaf, Operand)]

    @property
    def wants_gradient(self) -> bool:
        """Whether it has anything to do in the backward pass."""
        return any(operand.wants_gradient for operand in self.operands)

    @property
    def elements(self) -> int:
        """Elements of all results."""
        return sum(math.prod(output.shape) for output in self.outputs)

    @property
    def dtype(self) -> torch.dtype:
        """Element type of the (first) result; float32 for an operation without one."""
        return self.outputs[0].dtype if self.outputs else torch.float32


def calls(program: Program, trained: frozenset[str], partials: torch.dtype) -> dict[str, Call]:
    """Every operation of a program by its name. `trained` are the names of weights that get gradients."""
    types: dict[str, tuple[TensorType, ...]] = {name: (type_,) for name, type_ in program.inputs.items()}
    types |= {name: (type_,) for name, type_ in program.weights.items()}
    wants = {
        operand
        for operand, name in zip(program.weights, program.weight_names, strict=False)
        if name in trained and program.schedule.training
    }
    found = {}
    for operation in program.operations:
        types[operation.name] = operation.outputs
        differentiable = any(t.dtype.is_floating_point for t in operation.outputs)
        if differentiable and operation.op not in _STOPS and wants.intersection(operation.inputs):
            wants.add(operation.name)

        def operand(leaf: Any, types=types, program=program) -> Any:
            if not isinstance(leaf, Value):
                return leaf
            kinds = types[leaf.name]
            first = kinds[0] if kinds else TensorType((), torch.float32)
            return Operand(first.shape, first.dtype, leaf.name in wants, leaf.name in program.weights)

        found[operation.name] = _call(operation, operand, partials)
    return found


def _call(operation: Operation, operand: Any, partials: torch.dtype) -> Call:
    args, kwargs = pytree.tree_map(operand, operation.arguments, is_leaf=lambda leaf: isinstance(leaf, Value))
    overload = _overload(operation.op)
    if overload is None:
        named = {str(position): argument for position, argument in enumerate(args)} | kwargs
        return Call(operation.op.split(".")[-2:][0], named, operation.outputs, partials)
    named = {}
    for position, argument in enumerate(overload._schema.arguments):
        default = argument.default_value if argument.has_default_value() else None
        named[argument.name] = args[position] if position < len(args) else kwargs.get(argument.name, default)
    return Call(overload._schema.name.split("::")[1], named, operation.outputs, partials)


def _overload(name: str) -> torch._ops.OpOverload | None:
    parts = name.split(".")
    if len(parts) != 3:
        return None
    packet = getattr(getattr(torch.ops, parts[0]), parts[1], None)
    return getattr(packet, parts[2], None)
