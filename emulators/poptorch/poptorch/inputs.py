"""The arguments of a call: named, flattened, and checked against what was compiled."""

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from poptorch.errors import Error
from poptorch.program import TensorType

logger = logging.getLogger("poptorch")

# What the device computes with in place of what it cannot hold.
DEVICE_DTYPES = {torch.float64: torch.float32, torch.bfloat16: torch.float32}
SUPPORTED_DTYPES = {
    torch.float16,
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.bool,
}
RECOMPILE = (
    "The compiled model takes exactly the arguments it was compiled with. To change them, call destroy() "
    "and call the model again, or wrap the model a second time."
)


def device_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type in which the device holds values of `dtype`."""
    return DEVICE_DTYPES.get(dtype, dtype)


class Arguments:
    """The parameters of a `forward` and how calls fill them.

    However a call spells its arguments - by position, by keyword, by default - they flatten to the same
    leaves.
    """

    def __init__(self, forward: Callable):
        self.signature = inspect.signature(forward)
        # By number of tensors: what calls with just so many of them, all by position, flatten to after those.
        self._usual: dict[int, tuple[list[Any], pytree.TreeSpec]] = {}

    def flatten(self, args: tuple, kwargs: dict[str, Any]) -> tuple[list[Any], pytree.TreeSpec]:
        """Leaves of all arguments in the order of `forward`'s parameters, and the tree they came from.

        A missing argument is an Error; one too many, unknown, or given twice an AssertionError.
        """
        only_tensors = not kwargs and all(isinstance(argument, torch.Tensor) for argument in args)
        if only_tensors and len(args) in self._usual:
            defaults, tree = self._usual[len(args)]
            return [*args, *defaults], tree
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            self._explain(args, kwargs, error)
        bound.apply_defaults()
        leaves, tree = pytree.tree_flatten(dict(bound.arguments))
        if only_tensors:
            self._usual[len(args)] = leaves[len(args) :], tree
        return leaves, tree

    def _explain(self, args: tuple, kwargs: dict[str, Any], error: TypeError) -> None:
        try:
            self.signature.bind_partial(*args, **kwargs)
        except TypeError:
            raise AssertionError(
                f"The model's forward{self.signature} was called wrongly: {error}."
            ) from None
        raise Error(f"The model's forward{self.signature} is {error}; pass it to the model.") from None

    def unflatten(self, leaves: list[Any], tree: pytree.TreeSpec) -> tuple[tuple, dict[str, Any]]:
        """The positional and keyword arguments that flatten to `leaves`."""
        bound = inspect.BoundArguments(self.signature, pytree.tree_unflatten(leaves, tree))
        return bound.args, bound.kwargs


@dataclass(frozen=True)
class CompiledInputs:
    """What a compiled model accepts: tensors of fixed shape and type, and fixed values for everything else.

    `leaves` are the flattened arguments of the first call, each tensor replaced by its shape and type.
    """

    leaves: list[Any]
    tree: pytree.TreeSpec

    @classmethod
    def of(cls, leaves: list[Any], tree: pytree.TreeSpec) -> "CompiledInputs":
        """Remember the arguments without holding on to their data."""
        return cls([_type_of(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], tree)

    def check(self, leaves: list[Any], tree: pytree.TreeSpec) -> None:
        """Error unless a call's arguments are of the kind compiled for."""
        if tree is not self.tree and tree != self.tree:
            self._explain_structure(leaves, tree)
        for index, (expected, leaf) in enumerate(zip(self.leaves, leaves, strict=True)):
            if isinstance(expected, TensorType) and isinstance(leaf, torch.Tensor):
                if expected.shape != leaf.shape or expected.dtype != leaf.dtype:
                    raise _tensor_mismatch(self.name(index), expected, leaf)
            elif isinstance(expected, TensorType) or type(expected) is not type(leaf):
                raise _mismatch("Type", self.name(index), _type_name(expected), _type_name(leaf))
            elif expected is not leaf and expected != leaf:
                raise _mismatch("Value", self.name(index), repr(expected), repr(leaf))

    def _explain_structure(self, leaves: list[Any], tree: pytree.TreeSpec) -> None:
        expected, got = pytree.tree_unflatten(self.leaves, self.tree), pytree.tree_unflatten(leaves, tree)
        for name in expected:
            _check_structure(name, expected[name], got[name])
        raise _mismatch("Structure", "the arguments", self.tree, tree)

    def name(self, index: int) -> str:
        """Name of a leaf as the learner would write it: `x`, `batch['mask']`, `pair[1]`."""
        path, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(self.leaves, self.tree))[0][index]
        return path[0].key + pytree.keystr(path[1:])


def _mismatch(what: str, name: str, expected: object, got: object) -> Error:
    return Error(f"{what} mismatch for {name}: expected {expected} but got {got}. {RECOMPILE}")


def _type_of(tensor: torch.Tensor) -> TensorType:
    return TensorType(tuple(tensor.shape), tensor.dtype)


def _type_name(value: Any) -> str:
    return "Tensor" if isinstance(value, (torch.Tensor, TensorType)) else type(value).__name__


def _tensor_mismatch(name: str, expected: TensorType, got: torch.Tensor) -> Error:
    if expected.dtype != got.dtype:
        return _mismatch("Type", name, expected.dtype, got.dtype)
    error = _mismatch("Shape", name, list(expected.shape), list(got.shape))
    if len(expected.shape) == got.dim() and expected.shape[1:] == got.shape[1:]:
        error = Error(f"{error.message} A short last batch can be left out with drop_last=True.")
    return error


def _check_structure(name: str, expected: Any, got: Any) -> None:
    """Find the first difference between two arguments of unlike structure, and say it."""
    if _type_name(expected) != _type_name(got):
        raise _mismatch("Type", name, _type_name(expected), _type_name(got))
    if isinstance(expected, dict):
        missing, unexpected = expected.keys() - got.keys(), got.keys() - expected.keys()
        if missing:
            raise Error(f"Missing arguments: {', '.join(map(str, missing))} in {name}. {RECOMPILE}")
        if unexpected:
            raise Error(f"Unexpected arguments: {', '.join(map(str, unexpected))} in {name}. {RECOMPILE}")
        for key in expected:
            _check_structure(f"{name}[{key!r}]", expected[key], got[key])
    elif isinstance(expected, (tuple, list)):
        if len(expected) != len(got):
            raise _mismatch("Length", name, len(expected), len(got))
        for index, pair in enumerate(zip(expected, got, strict=True)):
            _check_structure(f"{name}[{index}]", *pair)


def check_device_takes(leaves: list[Any]) -> None:
    """Error for a tensor the device has no memory or no type for."""
    for tensor in leaves:
        if not isinstance(tensor, torch.Tensor):
            continue
        if 0 in tensor.shape:
            raise Error(f"Zero-sized tensors are unsupported (Got shape {list(tensor.shape)}).")
        if tensor.dtype not in SUPPORTED_DTYPES:
            raise Error(f"Unsupported input type {tensor.dtype}; the device takes {_dtype_names()}.")


def _dtype_names() -> str:
    return ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in SUPPORTED_DTYPES))


class HostToDevice:
    """Turns a call's tensors into what the device reads, with one warning about each kind of change."""

    def __init__(self):
        self._warned: set[str] = set()

    def __call__(self, leaves: list[Any]) -> list[torch.Tensor]:
        """The tensors among `leaves`, plain, contiguous, without gradients, in types the device holds."""
        return [self._convert(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def _convert(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.requires_grad:
            self._warn(
                "Inputs that require gradients are detached: no gradient flows from the device to the host."
            )
            tensor = tensor.detach()
        if not tensor.is_contiguous():
            self._warn(
                "Inputs that are not contiguous are copied on every call; pass input.contiguous() to avoid "
                "it."
            )
            tensor = tensor.contiguous()
        if tensor.dtype in DEVICE_DTYPES:
            self._warn(f"The device has no {tensor.dtype}: such inputs become {DEVICE_DTYPES[tensor.dtype]}.")
            tensor = tensor.to(DEVICE_DTYPES[tensor.dtype])
        return tensor if type(tensor) is torch.Tensor else tensor.as_subclass(torch.Tensor)

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            logger.warning(message)
