"""PyTorch's Python functions in place of the operations behind them: the same kernels, called faster.

An operation called by its overload goes through a generic converter of arguments; the functions that eager
PyTorch calls have converters of their own, some microseconds quicker.
"""

import torch
from torch import fx

aten = torch.ops.aten

# Overloads whose positional arguments are those of the function.
_SAME_NAMES = {
    torch: """
        batch_norm bmm cat conv1d conv2d conv3d embedding exp group_norm layer_norm matmul max_pool1d
        max_pool2d mm relu sigmoid sqrt square tanh
    """,
    torch._C._nn: "adaptive_avg_pool2d avg_pool2d linear silu",
}
_FUNCTIONS = {
    getattr(aten, name).default: getattr(module, name)
    for module, names in _SAME_NAMES.items()
    for name in names.split()
} | {
    aten.add.Tensor: torch.add,
    aten.div.Tensor: torch.div,
    aten.dropout.default: torch.dropout,
    aten.flatten.using_ints: torch.flatten,
    aten.log_softmax.int: torch.log_softmax,
    aten.mean.dim: torch.mean,
    aten.mul.Tensor: torch.mul,
    aten.softmax.int: torch.softmax,
    aten.sub.Tensor: torch.sub,
    aten.transpose.int: torch.transpose,
}


def call_directly(graph: fx.Graph) -> None:
    """Replace overloads by functions wherever a node has positional arguments only."""
    for node in graph.nodes:
        function = _FUNCTIONS.get(node.target) if node.op == "call_function" and not node.kwargs else None
        if function is not None:
            node.target = function
