"""The captured graph as a list of operations in the device's terms."""

import operator as python_operator
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from poptorch.capture import notes
from poptorch.capture.dtypes import device_dtype
from poptorch.capture.placement import place_of
from poptorch.capture.program import Operation, TensorType, Value
from poptorch.capture.source import source_of

# Key of a node's own attributes in its meta data, and names of some of them: a result that is kept for the
# backward pass, and the loop beside which an input or output is transferred.
ATTRIBUTES = "poptorch_attributes"
CHECKPOINT = "recomputation_checkpoint"
OVERLAP = "overlap"
_NOTED = ("scope", "attributes", "multi_conv", "serialised")


def tensor_type(value: torch.Tensor) -> TensorType:
    """Shape and element type of a traced tensor, as the device holds it."""
    return TensorType(tuple(value.shape), device_dtype(value.dtype))


def computed(graph: fx.Graph) -> list[fx.Node]:
    """The nodes the device computes; not those that only the host's PyTorch needs, such as 64-bit indices."""
    return [
        node
        for node in graph.nodes
        if node.op == "call_function" and "val" in node.meta and not notes.fact(node, "host_only")
    ]


def operation(node: fx.Node) -> Operation:
    """A node as the device's operation. Error when it is outside all blocks of a model that has blocks."""
    results = pytree.tree_leaves(node.meta["val"])
    modules = list(node.meta.get("nn_module_stack", {}).values())
    path = modules[-1][0] if modules else ""
    return Operation(
        name=node.name,
        op="getitem" if node.target is python_operator.getitem else str(node.target),
        arguments=fx.map_arg((node.args, node.kwargs), lambda argument: Value(_maker(argument).name)),
        outputs=tuple(tensor_type(result) for result in results if isinstance(result, torch.Tensor)),
        module=path.removeprefix("model").removeprefix("."),
        source=source_of(node),
        place=place_of(node),
        attributes=_attributes(node),
    )


def _attributes(node: fx.Node) -> dict[str, Any]:
    noted = {name: notes.fact(node, name) for name in _NOTED}
    return {name: value for name, value in noted.items() if value} | node.meta.get(ATTRIBUTES, {})


def _maker(node: fx.Node) -> fx.Node:
    while node.op == "call_function" and notes.fact(node, "host_only"):
        node = node.args[0]
    return node
