"""Blocks: the parts of a model that may go to different IPUs, marked in the model or around its layers.

Marks have no effect outside tracing, so that the same model runs on the host.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from poptorch.capture.placement import Placer
from poptorch.errors import Error


class Block(torch.nn.Module):
    """A `with` block whose operations belong together, on the IPU `ipu_id`.

    `user_id` is the name under which a `Stage` may list it; without one blocks are numbered.
    """

    # Where blocks are put while a model is traced; None on the host.
    _placer: Placer | None = None

    def __init__(self, user_id: str | None = None, ipu_id: int | None = None):
        super().__init__()
        self._user_id, self._ipu_id = user_id, ipu_id

    def __enter__(self) -> "Block":
        Block.start(self._user_id, self._ipu_id)
        return self

    def __exit__(self, *_: object) -> None:
        if Block._placer is not None:
            Block._placer.end()

    @staticmethod
    def useAutoId() -> None:
        """Number blocks from "0" again; for the top of `forward`, so that it always numbers them alike."""
        if Block._placer is not None:
            Block._placer.restart_numbering()

    @staticmethod
    def start(user_id: str | None = None, ipu_id: int | None = None) -> None:
        """Begin a block that lasts until the next one begins."""
        if Block._placer is not None:
            Block._placer.begin(user_id, ipu_id)


@contextmanager
def placed_by(placer: Placer) -> Iterator[None]:
    """Put the blocks that begin inside where `placer` says."""
    outer, Block._placer = Block._placer, placer
    try:
        yield
    finally:
        Block._placer = outer


class _BeginsBlock:
    """The hook by which a layer begins a block when it is called."""

    def __init__(self, user_id: str | None, ipu_id: int | None):
        self.user_id, self.ipu_id = user_id, ipu_id

    def __call__(self, _module: torch.nn.Module, _inputs: Any) -> None:
        Block.start(self.user_id, self.ipu_id)

    def __repr__(self) -> str:
        return f"BeginBlock(user_id={self.user_id}, ipu_id={self.ipu_id})"


def _block_of(module: torch.nn.Module) -> _BeginsBlock | None:
    hooks = module._forward_pre_hooks.values()
    return next((hook for hook in hooks if isinstance(hook, _BeginsBlock)), None)


class LegacyBeginBlockFn(torch.nn.Module):
    """A function that begins a block whenever it is called."""

    def __init__(self, layer_to_call: Callable, user_id: str | None = None, ipu_id: int | None = None):
        super().__init__()
        self._user_id, self._ipu_id = user_id, ipu_id
        self._layer_to_call = layer_to_call

    def __call__(self, *input: Any, **kwargs: Any) -> Any:
        """Begin the block and call the function."""
        Block.start(self._user_id, self._ipu_id)
        return self._layer_to_call(*input, **kwargs)


def BeginBlock(
    layer_to_call: torch.nn.Module | Callable, user_id: str | None = None, ipu_id: int | None = None
) -> torch.nn.Module:
    """Make a layer of a model the start of a block, in place; layers after it belong to the block too.

    Also takes a function, and returns one that begins a block. Error for a layer that begins one already.
    """
    if not isinstance(layer_to_call, torch.nn.Module):
        return LegacyBeginBlockFn(layer_to_call, user_id, ipu_id)
    before = _block_of(layer_to_call)
    if before is not None:
        raise Error(
            f"This module has already been assigned to a block, {before}. A layer begins one block at most: "
            "call poptorch.removeBlocks(module) before assigning it anew."
        )
    layer_to_call.register_forward_pre_hook(_BeginsBlock(user_id, ipu_id))
    return layer_to_call


def removeBlocks(module: torch.nn.Module) -> None:
    """Take all blocks that `BeginBlock` began off a module and its sub-modules."""
    for layer in module.modules():
        hooks = layer._forward_pre_hooks
        for key in [key for key, hook in hooks.items() if isinstance(hook, _BeginsBlock)]:
            del hooks[key]


def BlockFunction(user_id: str | None = None, ipu_id: int | None = None) -> Callable:
    """Decorate a function so that all its operations are a block."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def in_a_block(*args: Any, **kwargs: Any) -> Any:
            with Block(user_id, ipu_id):
                return function(*args, **kwargs)

        return in_a_block

    return decorate


def module_repr(m: torch.nn.Module) -> str:
    """A module as text, like its `repr`, with the blocks that its layers begin."""
    begins = _block_of(m)
    prefix = f"{begins} " if begins else ""
    lines = m.extra_repr().splitlines()
    children = [
        (f"({name}): {module_repr(child)}").replace("\n", "\n  ") for name, child in m._modules.items()
    ]
    if not children and len(lines) < 2:
        return f"{prefix}{m._get_name()}({''.join(lines)})"
    inside = "".join(f"  {line}\n" for line in [*lines, *children])
    return f"{prefix}{m._get_name()}(\n{inside})"


def print_module(m: torch.nn.Module) -> None:
    """Print a module with the blocks that `BeginBlock` marked in it."""
    print(module_repr(m))
