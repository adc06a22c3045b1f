"""Nested arguments and results, taken apart into tensors and put together again.

Tuples, named tuples, lists and dictionaries are known; so are classes made from dictionaries, and those for
which a parser is registered.
"""

import abc
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree


class ICustomArgParser(abc.ABC):
    """Takes values of one class apart into tensors, and puts them together."""

    @abc.abstractmethod
    def yieldTensors(self, struct: Any) -> Iterator[torch.Tensor]:
        """Yield every tensor in `struct`, always in the same order."""

    @abc.abstractmethod
    def reconstruct(self, original_structure: Any, tensor_iterator: Iterator[torch.Tensor]) -> Any:
        """A value like `original_structure` with tensors from the iterator, in `yieldTensors`' order."""


class _Original:
    """The value that others of the same class are put together after. All of a class count as alike."""

    def __init__(self, value: Any, tensors: int):
        self.value, self.tensors = value, tensors

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Original) and (type(self.value), self.tensors) == (
            type(other.value),
            other.tensors,
        )

    def __hash__(self) -> int:
        return hash((type(self.value), self.tensors))


# What is registered, so that other processes can be told.
custom_parsers: dict[type, ICustomArgParser] = {}


def registerCustomArgParser(arg_data_type: type, arg_parser: ICustomArgParser | None) -> None:
    """Have `arg_parser` handle values of a class; None to forget the class."""
    if arg_data_type in pytree.SUPPORTED_NODES:
        pytree._deregister_pytree_node(arg_data_type)
        custom_parsers.pop(arg_data_type, None)
    if arg_parser is None:
        return
    custom_parsers[arg_data_type] = arg_parser

    def flatten(value: Any) -> tuple[list[torch.Tensor], _Original]:
        tensors = list(arg_parser.yieldTensors(value))
        return tensors, _Original(value, len(tensors))

    def unflatten(tensors: Iterable[torch.Tensor], original: _Original) -> Any:
        return arg_parser.reconstruct(original.value, iter(tensors))

    def flatten_with_keys(value: Any) -> tuple[list[tuple[Any, torch.Tensor]], _Original]:
        tensors, original = flatten(value)
        return [(pytree.SequenceKey(index), tensor) for index, tensor in enumerate(tensors)], original

    pytree.register_pytree_node(arg_data_type, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys)


def registerGeometricCustomArgParsers() -> None:
    """Register parsers for the classes of PyTorch Geometric: none, as poptorch_geometric is not emulated."""


def flatten(value: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """Leaves and the tree they hang in; a value of an unknown class is a leaf."""
    leaves, tree = pytree.tree_flatten(value)
    unknown = {type(leaf) for leaf in leaves if isinstance(leaf, dict)}
    if not unknown:
        return leaves, tree
    for cls in unknown:
        _register_dictionary(cls)
    return flatten(value)


def _register_dictionary(cls: type[dict]) -> None:
    def flatten(value: dict) -> tuple[list[Any], list[Any]]:
        return list(value.values()), list(value)

    def flatten_with_keys(value: dict) -> tuple[list[tuple[Any, Any]], list[Any]]:
        return [(pytree.MappingKey(key), leaf) for key, leaf in value.items()], list(value)

    def unflatten(leaves: Iterable[Any], keys: list[Any]) -> dict:
        return cls(zip(keys, leaves, strict=True))

    pytree.register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys)


def packed_tree(tree: pytree.TreeSpec) -> tuple[Any, Any, list]:
    """A tree as (class, context, children), which can be pickled."""
    return tree.type, tree._context, [packed_tree(child) for child in tree._children]


def unpacked_tree(packed: tuple[Any, Any, list]) -> pytree.TreeSpec:
    """The tree that `packed_tree` has packed."""
    cls, context, children = packed
    if cls is None:
        return pytree.treespec_leaf()
    if cls not in pytree.SUPPORTED_NODES and issubclass(cls, dict):
        _register_dictionary(cls)
    return pytree.TreeSpec(cls, context, [unpacked_tree(child) for child in children])
