"""Functions of the learner's that run before and after every compilation."""

from collections import OrderedDict
from collections.abc import Callable

from torch.utils.hooks import RemovableHandle

Hook = Callable[[], None]

_before: "OrderedDict[int, Hook]" = OrderedDict()
_after: "OrderedDict[int, Hook]" = OrderedDict()


def registerPreCompileHook(hook: Hook) -> RemovableHandle:
    """Have `hook()` called before each model is traced; RuntimeError unless it can be called."""
    return _register(_before, hook)


def registerPostCompileHook(hook: Hook) -> RemovableHandle:
    """Have `hook()` called after each model is compiled; RuntimeError unless it can be called."""
    return _register(_after, hook)


def _register(hooks: "OrderedDict[int, Hook]", hook: Hook) -> RemovableHandle:
    if not callable(hook):
        raise RuntimeError(f"A compile hook must be callable, but got {hook!r}.")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def before_compilation() -> None:
    """Call the hooks in the order they were registered."""
    for hook in list(_before.values()):
        hook()


def after_compilation() -> None:
    """Call the hooks in the order they were registered."""
    for hook in list(_after.values()):
        hook()
