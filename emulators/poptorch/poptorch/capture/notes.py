"""Facts noted on operations while they are captured: the block they are in, the scope, attributes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import fx
from torch.fx import traceback as fx_traceback

_KEY = "poptorch"


def note(**facts: Any) -> None:
    """Note facts on every operation captured from here on, in place of earlier facts of the same names."""
    custom = dict(fx_traceback.current_meta.get("custom", {}))
    custom[_KEY] = {**custom.get(_KEY, {}), **facts}
    fx_traceback.current_meta["custom"] = custom


def noted(name: str) -> Any:
    """The fact that would be noted on an operation captured now, None if there is none of that name."""
    return fx_traceback.current_meta.get("custom", {}).get(_KEY, {}).get(name)


def fact(node: fx.Node, name: str) -> Any:
    """What was noted on a captured operation, None if nothing of that name was."""
    return node.meta.get("custom", {}).get(_KEY, {}).get(name)


@contextmanager
def keeping() -> Iterator[None]:
    """Let captured operations keep the facts; none that are noted inside remain after it."""
    with fx_traceback.preserve_node_meta():
        yield
