"""The arguments of a call: named, flattened, and checked against what was compiled."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from poptorch.capture import structures
from poptorch.capture.dtypes import DEVICE_DTYPES
from poptorch.capture.program import TensorType
from poptorch.errors import Error
from poptorch.log import logger

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
        leaves, tree = structures.flatten(dict(bound.arguments))
        if only_tensors:
            self._usual[len(args)] = leaves[len(args) :], tree
        return leaves, tree

    def _explain(self, args: tuple, kwargs: dict[str, Any], error: TypeError) -> None:
        try:
            given = self.signature.bind_partial(*args, **kwargs).arguments
        except TypeError:
            raise AssertionError(
                f"The model's forward{self.signature} was called wrongly: {error}."
            ) from None
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        missing = next(
            name
            for name, parameter in self.signature.parameters.items()
            if parameter.default is parameter.empty and name not in given and parameter.kind not in variadic
        )
        raise Error(
            f"Mandatory parameter {missing} missing: the model's forward{self.signature} needs it."
        ) from None

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
    # The parameter that takes any number of positional arguments, and how many come before it.
    variadic: tuple[str, int] | None
    # The parameter that takes any keyword.
    keywords: str | None

    @classmethod
    def of(cls, leaves: list[Any], tree: pytree.TreeSpec, signature: inspect.Signature) -> "CompiledInputs":
        """Remember the arguments without holding on to their data."""
        kinds = [(name, parameter.kind) for name, parameter in signature.parameters.items()]
        variadic = [
            (name, index)
            for index, (name, kind) in enumerate(kinds)
            if kind == inspect.Parameter.VAR_POSITIONAL
        ]
        types = [_type_of(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        keywords = [name for name, kind in kinds if kind == inspect.Parameter.VAR_KEYWORD]
        return cls(types, tree, variadic[0] if variadic else None, keywords[0] if keywords else None)

    def check(self, leaves: list[Any], tree: pytree.TreeSpec) -> list[Any]:
        """The leaves in the order compiled for. Error unless the arguments are of the kind compiled for."""
        if tree is not self.tree and tree != self.tree:
            leaves = self._in_order(leaves, tree)
        for index, (expected, leaf) in enumerate(zip(self.leaves, leaves, strict=True)):
            if isinstance(expected, TensorType) and isinstance(leaf, torch.Tensor):
                if expected.shape != leaf.shape or expected.dtype != leaf.dtype:
                    raise _tensor_mismatch(self.name(index), expected, leaf)
            elif isinstance(expected, TensorType) or type(expected) is not type(leaf):
                raise _mismatch("Type", self.name(index), _type_name(expected), _type_name(leaf))
            elif expected is not leaf and expected != leaf:
                raise _mismatch("Value", self.name(index), repr(expected), repr(leaf))
        return leaves

    def _in_order(self, leaves: list[Any], tree: pytree.TreeSpec) -> list[Any]:
        """The leaves of arguments whose dictionaries are in another order; Error for other differences."""
        expected, got = pytree.tree_unflatten(self.leaves, self.tree), pytree.tree_unflatten(leaves, tree)
        if self.variadic is not None:
            name, before = self.variadic
            wanted, given = before + len(expected[name]), before + len(got[name])
            if wanted != given:
                raise Error(
                    f"Number of positional arguments mismatch: expected {wanted} arguments but got {given}. "
                    f"{RECOMPILE}"
                )
        ordered = {name: _in_order_of(expected[name], got[name], name) for name in expected}
        leaves, tree = structures.flatten(ordered)
        if tree != self.tree:
            raise _mismatch("Structure", "the arguments", self.tree, tree)
        return leaves

    def name(self, index: int) -> str:
        """Name of a leaf as the learner would write it: `x`, `batch['mask']`, `pair[1]`."""
        path, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(self.leaves, self.tree))[0][index]
        if path[0].key == self.keywords:
            path = path[1:]
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
    error = _mismatch("Shape", name, torch.Size(expected.shape), got.shape)
    if len(expected.shape) == got.dim() and expected.shape[1:] == got.shape[1:]:
        error = Error(f"{error.message} A short last batch can be left out with drop_last=True.")
    return error


def _in_order_of(expected: Any, got: Any, name: str) -> Any:
    """`got` with its dictionaries in the order of `expected`'s; Error where the structures differ."""
    if _type_name(expected) != _type_name(got):
        raise _mismatch("Type", name, _type_name(expected), _type_name(got))
    if isinstance(expected, dict):
        missing = [key for key in expected if key not in got]
        unexpected = [key for key in got if key not in expected]
        if missing:
            raise Error(f"Missing arguments: {', '.join(map(str, missing))}. They are in {name}. {RECOMPILE}")
        if unexpected:
            raise Error(
                f"Unexpected arguments: {', '.join(map(str, unexpected))}. They are in {name}. {RECOMPILE}"
            )
        return type(got)((key, _in_order_of(expected[key], got[key], f"{name}[{key!r}]")) for key in expected)
    if type(expected) in (tuple, list):
        if len(expected) != len(got):
            raise _mismatch("Length", name, len(expected), len(got))
        pairs = enumerate(zip(expected, got, strict=True))
        return type(got)(_in_order_of(*pair, f"{name}[{index}]") for index, pair in pairs)
    return got


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
        # Caller's tensors, their copies, and the copies' versions: PyTorch counts changes in place.
        self._copied: list[tuple[torch.Tensor, torch.Tensor, int]] = []

    def __call__(self, leaves: list[Any]) -> list[torch.Tensor]:
        """The tensors among `leaves`, plain, contiguous, without gradients, in types the device holds."""
        self._copied = []
        return [self._convert(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def write_back(self) -> None:
        """Copy to the caller's tensors what the model changed in place in converted copies of them."""
        for original, converted, version in self._copied:
            if converted._version != version:
                with torch.no_grad():
                    original.copy_(converted)
        self._copied = []

    def _convert(self, tensor: torch.Tensor) -> torch.Tensor:
        original = tensor
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
            if tensor.is_floating_point():
                becomes = DEVICE_DTYPES[tensor.dtype]
                self._warn(f"The device has no {tensor.dtype}: such inputs become {becomes}.")
            tensor = tensor.to(DEVICE_DTYPES[tensor.dtype])
        if tensor.data_ptr() != original.data_ptr():
            self._copied.append((original, tensor, tensor._version))
        return tensor if type(tensor) is torch.Tensor else tensor.as_subclass(torch.Tensor)

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            logger.warning(message)
