"""float16 arithmetic as the device does it: the type of partial sums, and how results are rounded.

Ordinarily PyTorch's own float16 operations, which add up in float32 and round to nearest, are the device's
too. What differs from that, the options ask for, and is put into the graph here.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from poptorch.multiconv import CONVOLUTIONS
from poptorch.options import Options
from poptorch.rules.refusals import operation_name
from poptorch.run.rounding import rounded

aten = torch.ops.aten

# Products that a tile's matrix unit adds up at a time in float16 before they reach the partial sum: dot
# products of 16 elements (the block of 16 x 16 that poplibs plans for half activations on 16 units).
_DOT_PRODUCT = 16
_PRODUCTS = {"linear", "matmul", "mm", "bmm", "addmm"} | CONVOLUTIONS
_ELEMENTWISE = {
    "add",
    "sub",
    "mul",
    "div",
    "exp",
    "log",
    "sqrt",
    "mean",
    "sum",
    "softmax",
    "log_softmax",
    "gelu",
    "tanh",
}


def apply_precision(graph: fx.Graph, options: Options) -> None:
    """Replace operations with float16 results where the options want other partial sums or rounding."""
    half_partials = options.Precision.partials_type == torch.float16
    stochastic = options.Precision.stochastic_rounding
    if not half_partials and not stochastic:
        return
    for node in graph.nodes:
        if not _is_half(node):
            continue
        name, function = operation_name(node), node.target
        if half_partials and name in _PARTIAL_SUMS:
            function = _PARTIAL_SUMS[name]
        if stochastic and name in _PRODUCTS | _ELEMENTWISE:
            function = _RoundedAtRandom(function)
        node.target = function


def _is_half(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return node.op == "call_function" and isinstance(value, torch.Tensor) and value.dtype == torch.float16


class _RoundedAtRandom:
    """An operation in float32 with a result rounded at random to float16."""

    __name__ = "rounded_at_random"

    def __init__(self, function: Callable):
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        args, kwargs = pytree.tree_map(_widened, (args, kwargs))
        result = self.function(*args, **kwargs)
        return rounded(result) if result.dtype == torch.float32 else result


def _widened(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.float16 else value


# --- Partial sums in float16


def _matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a (..., K) times b (..., K, M) or (K), adding up in float16."""
    vector = b.dim() == 1
    b = b.unsqueeze(-1) if vector else b
    total = None
    for k in range(0, a.shape[-1], _DOT_PRODUCT):
        part = torch.matmul(a[..., k : k + _DOT_PRODUCT].float(), b[..., k : k + _DOT_PRODUCT, :].float())
        total = part.half() if total is None else (total.float() + part).half()
    return total.squeeze(-1) if vector else total


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    product = _matmul(x, weight.transpose(-1, -2))
    return product if bias is None else product + bias.half()


def _addmm(
    bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    return beta * bias + alpha * _matmul(a, b)


class _Convolution:
    """A convolution that adds up its input channels, a dot product's worth at a time, in float16."""

    __name__ = "convolution_with_half_partials"

    def __init__(self, convolve: Callable):
        self.convolve = convolve

    def __call__(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> torch.Tensor:
        channels = weight.shape[1]
        groups = x.shape[1] // channels
        grouped = x.reshape(x.shape[0], groups, channels, *x.shape[2:])
        total = None
        for c in range(0, channels, _DOT_PRODUCT):
            some = grouped[:, :, c : c + _DOT_PRODUCT].flatten(1, 2).float()
            part = self.convolve(some, weight[:, c : c + _DOT_PRODUCT].float(), None, *args, **kwargs)
            total = part.half() if total is None else (total.float() + part).half()
        return total if bias is None else total + bias.half().reshape(-1, *[1] * (weight.dim() - 2))


_PARTIAL_SUMS = {
    "linear": _linear,
    "matmul": _matmul,
    "mm": _matmul,
    "bmm": _matmul,
    "addmm": _addmm,
    "conv1d": _Convolution(aten.conv1d.default),
    "conv2d": _Convolution(aten.conv2d.default),
    "conv3d": _Convolution(aten.conv3d.default),
}
