"""Programs as data that can be written to a file: the graph of operations without PyTorch's own objects."""

import dataclasses
import importlib
import io
import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from poptorch.capture import structures
from poptorch.capture.program import Program
from poptorch.errors import Error


@dataclasses.dataclass(frozen=True)
class _NodeName:
    """A reference to another node."""

    name: str


@dataclasses.dataclass(frozen=True)
class _StoredGraph:
    """The nodes of a graph as (op, name, target, arguments, keyword arguments), and the tensors it holds."""

    nodes: list[tuple[str, str, Any, Any, Any]]
    attributes: dict[str, Any]


def dumps(value: Any, program: Program) -> bytes:
    """Pickle `value`, in which `program` may occur. Error when the program calls something that can't be."""
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    try:
        pickler.dump(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise Error(
            f"The compiled model can't be written to a file: {error}. Functions and classes that it uses "
            "must be importable: at the top of a module, not inside a function."
        ) from error
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, fx.GraphModule):
            return _reduce_graph(value)
        if isinstance(value, torch._ops.OpOverload):
            return _reduce_operation(value)
        if isinstance(value, pytree.TreeSpec):
            return structures.unpacked_tree, (structures.packed_tree(value),)
        return NotImplemented


def _reduce_operation(operation: torch._ops.OpOverload) -> tuple[Callable, tuple[str]]:
    return _operation, (str(operation),)


def _operation(name: str) -> torch._ops.OpOverload:
    found: Any = torch.ops
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _reduce_graph(module: fx.GraphModule) -> tuple[Callable, tuple[_StoredGraph]]:
    def plain(argument: Any) -> Any:
        return fx.map_arg(argument, lambda node: _NodeName(node.name))

    nodes = [
        (node.op, node.name, _plain_target(node.target), plain(node.args), plain(node.kwargs))
        for node in module.graph.nodes
    ]
    attributes = {
        node.target: getattr(module, node.target) for node in module.graph.nodes if node.op == "get_attr"
    }
    return _graph_module, (_StoredGraph(nodes, attributes),)


def _plain_target(target: Any) -> Any:
    """A target by reference where pickle knows none: built-in functions without a module."""
    if getattr(target, "__module__", "") is None and getattr(torch._C, target.__name__, None) is target:
        return ("torch._C", target.__name__)
    return target


def _graph_module(stored: _StoredGraph) -> fx.GraphModule:
    graph = fx.Graph()
    made: dict[str, fx.Node] = {}

    def with_nodes(argument: Any) -> Any:
        return _map(argument, made)

    for op, name, target, args, kwargs in stored.nodes:
        if isinstance(target, tuple):
            target = getattr(importlib.import_module(target[0]), target[1])
        made[name] = graph.create_node(op, target, with_nodes(args), with_nodes(kwargs), name)
    return fx.GraphModule(stored.attributes, graph)


def _map(argument: Any, made: dict[str, fx.Node]) -> Any:
    if isinstance(argument, _NodeName):
        return made[argument.name]
    if isinstance(argument, dict):
        return {key: _map(value, made) for key, value in argument.items()}
    if isinstance(argument, slice):
        return slice(*(_map(part, made) for part in (argument.start, argument.stop, argument.step)))
    if isinstance(argument, (list, tuple)):
        return type(argument)(_map(value, made) for value in argument)
    return argument
