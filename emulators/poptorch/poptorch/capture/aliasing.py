"""Which results share memory with which arguments, and which operations write to it."""

import operator

import torch
from torch import fx

from poptorch.rules.refusals import operation_name

# Operations that update the tensors at these positions without saying so in their schema.
_NORMALISATION_STATISTICS = {"batch_norm": (3, 4), "instance_norm": (3, 4)}


def aliases(node: fx.Node) -> list[tuple[fx.Node, bool]]:
    """Arguments whose memory a node's result may share, each with whether the node writes to it."""
    if node.target is operator.getitem:
        return [(node.args[0], False)]
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    found = []
    for position, argument in enumerate(node.target._schema.arguments):
        value = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
        if isinstance(value, fx.Node) and argument.alias_info is not None:
            found.append((value, argument.alias_info.is_write))
    name = operation_name(node)
    for position in _NORMALISATION_STATISTICS.get(name, ()):
        if isinstance(node.args[position], fx.Node) and node.args[5]:
            found.append((node.args[position], True))
    return found


def writes(node: fx.Node, to: fx.Node) -> bool:
    """Whether a node changes a tensor in place."""
    return any(source is to and is_write for source, is_write in aliases(node))


def is_view(node: fx.Node) -> bool:
    """Whether a node's result may share an argument's memory."""
    return any(not is_write for _, is_write in aliases(node))


def origin(node: fx.Node) -> fx.Node:
    """The tensor whose memory `node` may be a view of, itself if it has memory of its own."""
    while node.op != "placeholder":
        sources = aliases(node)
        if not sources or operation_name(node) in _NORMALISATION_STATISTICS:
            return node
        node = sources[0][0]
    return node
