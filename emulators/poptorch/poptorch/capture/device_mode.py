"""What the learner's calls of PyTorch mean on the device, settled while they are captured.

The tensors that capture computes with are on the host. In a `forward` on the device they are on the IPU,
can't leave it, hold no 64-bit numbers, and don't mix with tensors that `forward` makes on the host.
"""

import logging
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from poptorch.capture import losses, notes
from poptorch.capture.dtypes import DEVICE_DTYPES
from poptorch.capture.dynamic_slices import Bounds
from poptorch.capture.source import current_source, located

logger = logging.getLogger("poptorch")

Tensor = torch.Tensor

_FACTORIES = {
    getattr(torch, name)
    for name in [
        "arange",
        "empty",
        "eye",
        "full",
        "linspace",
        "logspace",
        "ones",
        "rand",
        "randint",
        "randn",
        "randperm",
        "tensor",
        "zeros",
    ]
}
# Functions that are others on the device.
_ON_DEVICE = {
    F.ctc_loss: losses.ctc_loss,
    Tensor.double: Tensor.float,
    Tensor.bfloat16: Tensor.float,
    Tensor.long: Tensor.int,
}
# Arguments for which PyTorch on the host insists on 64-bit integers, by position and name.
_INDEX_ARGUMENTS = {
    F.cross_entropy: [(1, "target")],
    F.nll_loss: [(1, "target")],
    F.multi_margin_loss: [(1, "target")],
    F.multilabel_margin_loss: [(1, "target")],
    F.one_hot: [(0, "tensor")],
    torch.gather: [(2, "index")],
    Tensor.gather: [(2, "index")],
    torch.take_along_dim: [(1, "indices")],
    Tensor.take_along_dim: [(1, "indices")],
    **{
        getattr(owner, name): [(2, "index")]
        for owner in (torch, Tensor)
        for name in ("scatter", "scatter_add", "scatter_reduce", "index_fill", "index_copy", "index_reduce")
        if hasattr(owner, name)
    },
    **{
        getattr(Tensor, name): [(2, "index")]
        for name in (
            "scatter_",
            "scatter_add_",
            "scatter_reduce_",
            "index_fill_",
            "index_copy_",
            "index_reduce_",
        )
    },
}
# Operations whose result has the type of their first argument, the activation, whatever their weights have.
_TYPED_BY_ACTIVATION = {
    F.linear: ("input", "weight", "bias"),
    F.bilinear: ("input1", "input2", "weight", "bias"),
    torch.matmul: ("input", "other"),
    torch.mm: ("input", "mat2"),
    torch.bmm: ("input", "mat2"),
    Tensor.matmul: ("self", "other"),
    Tensor.__matmul__: ("self", "other"),
    **{
        getattr(torch, f"conv{transpose}{dims}d"): ("input", "weight", "bias")
        for transpose in ("", "_transpose")
        for dims in (1, 2, 3)
    },
}


class DeviceMode(TorchFunctionMode):
    """Inside it the learner's calls of PyTorch act as on the device."""

    def __init__(self):
        super().__init__()
        self._warned: set[str] = set()
        self._stayed_on_host: set[int] = set()
        self._kept: list[Tensor] = []
        self._bounds = Bounds()

    def __torch_function__(
        self, function: Callable, types: tuple, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Do one call as the device would."""
        kwargs = kwargs or {}
        if function is Tensor.__repr__ and not self._is_on_host(args[0]):
            return f"tensor(<unavailable>, shape={list(args[0].shape)}, dtype={args[0].dtype})"
        if function is Tensor.cpu:
            raise _illegal_move()
        if getattr(function, "__name__", "") == "lift_fresh_copy.default":
            return self._keep_on_host(function(*args, **kwargs))
        if getattr(function, "__name__", "") in ("__get__", "__set__"):
            return function(*args, **kwargs)
        if function is Tensor.to and any(map(_is_ipu, (*args[1:], kwargs.get("device")))):
            return self._move_to_device(args, kwargs)
        if self._stays_on_host(function, args, kwargs):
            return self._call_on_host(function, args, kwargs)
        if function is Tensor.__getitem__:
            with self:
                args = self._bounds.slice(*args)
        return self._call_on_device(_ON_DEVICE.get(function, function), args, kwargs)

    def _call_on_device(self, function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        if function is Tensor.to:
            if any(map(_is_cpu, (*args[1:], kwargs.get("device")))):
                raise _illegal_move()
            args = (args[0], *map(_host_argument, args[1:]))
        kwargs = {name: _host_argument(value) for name, value in kwargs.items()}
        args, kwargs = _with_types_that_fit(function, args, kwargs)
        result = function(*args, **kwargs)
        result = losses.marked(function, _without_64_bits(result))
        self._bounds.follow(function, args, result)
        return result

    # --- Tensors that are not on the device

    def _keep_on_host(self, tensor: Tensor) -> Tensor:
        self._stayed_on_host.add(id(tensor))
        self._kept.append(tensor)  # so that no other tensor gets its id
        return tensor

    def _is_on_host(self, tensor: Any) -> bool:
        """Whether a tensor was made outside `forward`, or in it but on the host.

        On the device the first is a constant; the second may not be used there.
        """
        if not isinstance(tensor, Tensor):
            return False
        return id(tensor) in self._stayed_on_host or not isinstance(tensor, FakeTensor)

    def _stays_on_host(self, function: Callable, args: tuple, kwargs: dict[str, Any]) -> bool:
        """Whether a call is the host's business: what it takes is there. Error for a mixture."""
        if function in _FACTORIES:
            if kwargs.get("device") is None:
                self._warn(f"No device set in torch.{function.__name__}(): forcing to IPU")
            return _is_cpu(kwargs.get("device"))
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        on_host = [tensor for tensor in tensors if self._is_on_host(tensor)]
        refused = [tensor for tensor in on_host if id(tensor) in self._stayed_on_host and tensor.dim()]
        if refused and len(on_host) < len(tensors):
            raise _stayed_on_host(refused[0])
        return bool(tensors) and len(on_host) == len(tensors)

    def _call_on_host(self, function: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Compute at once what needs no tensor of the device."""
        if any(isinstance(leaf, FakeTensor) for leaf in pytree.tree_leaves((args, kwargs))):
            return pytree.tree_map_only(Tensor, self._keep_on_host, function(*args, **kwargs))
        with _disable_current_modes():
            result = function(*args, **kwargs)
        return self._keep_on_host(result) if function in _FACTORIES else result

    def _move_to_device(self, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        was_on_host = self._is_on_host(args[0])
        kwargs = {name: _host_argument(value) for name, value in kwargs.items()}
        moved = args[0].to(*map(_host_argument, args[1:]), **kwargs)
        return _without_64_bits(_hidden(torch.clone, moved) if was_on_host else moved)

    def _warn(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            logger.warning(message)


def _host_argument(argument: Any) -> Any:
    if isinstance(argument, torch.dtype):
        return DEVICE_DTYPES.get(argument, argument)
    return "cpu" if _is_ipu(argument) else argument


def _is_ipu(device: Any) -> bool:
    if isinstance(device, torch.device):
        return device.type == "ipu"
    return isinstance(device, str) and device.split(":")[0] in ("ipu", "xla")


def _is_cpu(device: Any) -> bool:
    # A torch.device is most often another tensor's, on the device: capture shows that as the CPU.
    return isinstance(device, str) and device == "cpu"


# --- Types


def _with_types_that_fit(
    function: Callable, args: tuple, kwargs: dict[str, Any]
) -> tuple[tuple, dict[str, Any]]:
    if function in (Tensor.__getitem__, Tensor.__setitem__):
        args = (args[0], pytree.tree_map(_boolean_mask, args[1]), *args[2:])
    for position, name in _INDEX_ARGUMENTS.get(function, ()):
        args, kwargs = _replace(args, kwargs, position, name, _with_64_bits)
    names = _TYPED_BY_ACTIVATION.get(function, ())
    activation = (args[0] if args else kwargs.get(names[0])) if names else None
    if activation is not None and activation.is_floating_point():
        dtype = activation.dtype
        for position, name in enumerate(names):
            args, kwargs = _replace(args, kwargs, position, name, lambda tensor: _as_type(tensor, dtype))
    return args, kwargs


def _replace(
    args: tuple, kwargs: dict[str, Any], position: int, name: str, change: Callable[[Tensor], Tensor]
) -> tuple[tuple, dict[str, Any]]:
    if position < len(args) and isinstance(args[position], Tensor):
        return (*args[:position], change(args[position]), *args[position + 1 :]), kwargs
    if isinstance(kwargs.get(name), Tensor):
        return args, {**kwargs, name: change(kwargs[name])}
    return args, kwargs


def _boolean_mask(index: Any) -> Any:
    # On the device, as once in PyTorch, a mask may be of bytes.
    return _hidden(Tensor.bool, index) if isinstance(index, Tensor) and index.dtype == torch.uint8 else index


def _with_64_bits(tensor: Tensor) -> Tensor:
    if tensor.is_floating_point() or tensor.dtype in (torch.int64, torch.bool):
        return tensor
    return _hidden(Tensor.to, tensor, torch.int64)


def _as_type(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    return tensor.to(dtype) if tensor.is_floating_point() and tensor.dtype != dtype else tensor


def _without_64_bits(result: Any) -> Any:
    def narrow(value: Any) -> Any:
        if isinstance(value, FakeTensor) and value.dtype in DEVICE_DTYPES:
            return _hidden(Tensor.to, value, DEVICE_DTYPES[value.dtype])
        return value

    return pytree.tree_map(narrow, result) if _has_64_bits(result) else result


def _has_64_bits(result: Any) -> bool:
    return any(
        isinstance(leaf, Tensor) and leaf.dtype in DEVICE_DTYPES for leaf in pytree.tree_leaves(result)
    )


def _hidden(function: Callable, *args: Any) -> Any:
    """Do what only the host needs done; the captured program doesn't show it."""
    before = notes.noted("host_only")
    notes.note(host_only=True)
    try:
        return function(*args)
    finally:
        notes.note(host_only=before)


# --- Refusals


def _illegal_move() -> Exception:
    return located(
        "Illegal move to CPU: forward runs on the device and can't fetch a tensor from it halfway. Keep "
        "it there, and return it to read it after the call; for host code in the middle of an inference "
        "model there is poptorch.CPU.",
        current_source(),
    )


_NAMES_OF_DTYPES = {
    torch.float16: "Half",
    torch.float32: "Float",
    torch.float64: "Double",
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.bool: "Bool",
}


def _stayed_on_host(tensor: Tensor) -> Exception:
    shape = ", ".join(map(str, tensor.shape))
    return located(
        f"Expected an IPU tensor but got tensor(device=cpu, shape=[{shape}], "
        f"dtype={_NAMES_OF_DTYPES.get(tensor.dtype, tensor.dtype)}). Constant tensors have to be moved to "
        "the "
        'IPU explicitly, with tensor.to("ipu"), or be registered as buffers of the model: '
        'self.register_buffer("name", tensor).',
        current_source(),
    )
