"""Weights twice: the host's, which the learner's model holds, and the device's, which training changes.

The host's copy is brought up to date when somebody looks at it, not after every call.
"""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from poptorch.enums import CommGroupType, VariableRetrievalMode
from poptorch.log import logger
from poptorch.weights.device_weights import DeviceWeights

__all__ = ["DeviceWeights", "HostWeights"]

Tensor = torch.Tensor

# Asking for these tells nothing about a tensor's values, so they need no up-to-date copy.
_METADATA = frozenset(
    [
        getattr(Tensor, name).__get__
        for name in ("shape", "dtype", "device", "layout", "requires_grad", "grad", "is_leaf")
    ]
    + [
        getattr(Tensor, name)
        for name in ("size", "dim", "numel", "stride", "is_contiguous", "is_floating_point")
    ]
)


class HostWeights:
    """A model's own parameters and buffers, and whether a device holds newer ones.

    `version` counts the copies from a device, so that a second device knows when its own is out of date.
    """

    def __init__(self, model: torch.nn.Module):
        self._model = weakref.ref(model)
        self._download: weakref.WeakMethod | None = None
        self.version = 0

    @classmethod
    def of(cls, model: torch.nn.Module) -> "HostWeights":
        """The one record of a model's weights."""
        if model not in _records:
            _records[model] = cls(model)
        return _records[model]

    def parameters(self) -> Iterator[tuple[list[str], Tensor]]:
        """Each parameter with all its names: tied ones have several."""
        return _with_all_names(self._model().named_parameters(remove_duplicate=False))

    def buffers(self) -> Iterator[tuple[list[str], Tensor]]:
        """Each buffer with all its names."""
        return _with_all_names(self._model().named_buffers(remove_duplicate=False))

    def mark_stale(self, download: Callable[[], None]) -> None:
        """Note that a device has trained: its weights are newer, and the method `download` fetches them."""
        self._download = weakref.WeakMethod(download)

    def mark_fresh(self) -> None:
        """Note that the weights were fetched from a device."""
        self._download = None
        self.version += 1

    def synchronise(self) -> bool:
        """Copy from the device that holds newer weights, if any; returns whether one did."""
        if self._download is None:
            return False
        # A model outlives no executor that watches it, but it may be past watching.
        download, self._download = self._download(), None
        if download is None:
            return False
        logger.debug("Implicit copyWeightsToHost()")
        download()
        return True


_records: "weakref.WeakKeyDictionary[torch.nn.Module, HostWeights]" = weakref.WeakKeyDictionary()


def _with_all_names(members: Iterator[tuple[str, Tensor]]) -> Iterator[tuple[list[str], Tensor]]:
    names: dict[int, tuple[list[str], Tensor]] = {}
    for name, tensor in members:
        names.setdefault(id(tensor), ([], tensor))[0].append(name)
    return iter(names.values())


class _Watched:
    """What a host tensor's class gains while its model is wrapped for training: looking synchronises first.

    Each wrapped model has classes of its own, with its HostWeights as `host`.
    """

    host: HostWeights

    @classmethod
    def __torch_function__(
        cls, function: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        if function not in _METADATA:
            for watched in types:
                if issubclass(watched, _Watched):
                    watched.host.synchronise()
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    def __repr__(self, **kwargs: Any) -> str:
        return self._unwatched_copy().__repr__(**kwargs)

    def __format__(self, specification: str) -> str:
        return format(self.detach(), specification)

    def __deepcopy__(self, memo: dict) -> Tensor:
        memo[id(self)] = copy = self._unwatched_copy()
        return copy

    def __reduce_ex__(self, protocol: int) -> tuple:
        return self._unwatched_copy().__reduce_ex__(protocol)


class _WatchedParameter(_Watched, torch.nn.Parameter):
    executor: Any

    def replicaGrouping(
        self,
        comm_group_type: CommGroupType,
        shards: int,
        variable_retrieval_mode: VariableRetrievalMode = VariableRetrievalMode.OnePerGroup,
    ) -> None:
        """Give each group of `shards` replicas its own value of this parameter, along its dimension 0.

        Before the model is compiled; Error for a scalar.
        """
        self.executor.group_replicas(self, comm_group_type, shards, variable_retrieval_mode)

    def _unwatched_copy(self) -> torch.nn.Parameter:
        return torch.nn.Parameter(self.detach().clone(), self.requires_grad)


class _WatchedBuffer(_Watched, Tensor):
    def _unwatched_copy(self) -> Tensor:
        return self.detach().clone()


class _GroupableParameter(torch.nn.Parameter):
    """An inference model's parameter as the wrapper shows it: the same memory, and replicaGrouping."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    executor: Any
    replicaGrouping = _WatchedParameter.replicaGrouping


def groupable(parameter: torch.nn.Parameter, executor: Any) -> torch.nn.Parameter:
    """The same parameter, with `replicaGrouping` for a wrapper that does not watch its model."""
    shown = parameter.detach().as_subclass(_GroupableParameter)
    shown.executor = executor
    return shown.requires_grad_(parameter.requires_grad)


class _WrappedModule:
    """What a model's class gains while the model is wrapped for training.

    Copies and pickles of the model are of its own class again.
    """

    _executor: Any
    _class_before_wrapping: type

    def destroy(self) -> None:
        """Release the device, bring weights up to date and make this an ordinary module again."""
        self._executor.destroy()

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Bring weights up to date; returns whether the device's were newer."""
        return self._executor.copyWeightsToHostIfNeeded()

    def __reduce_ex__(self, protocol: int) -> tuple:
        twin = self._class_before_wrapping.__new__(self._class_before_wrapping)
        twin.__dict__ = self.__dict__
        # From protocol 2 on pickle insists on the object's present class.
        return twin.__reduce_ex__(1)


def is_watched(model: torch.nn.Module) -> bool:
    """Whether a model is wrapped for training already."""
    return isinstance(model, _WrappedModule)


def watch(model: torch.nn.Module, executor: Any) -> None:
    """Change the classes of a model and its weights, in place: looking at weights now synchronises them."""
    host = HostWeights.of(model)
    shared = {"host": host, "executor": executor}
    watched = {base: type(base.__name__, (base,), shared) for base in (_WatchedParameter, _WatchedBuffer)}
    for _, tensor in host.parameters():
        if type(tensor) is torch.nn.Parameter:
            tensor.__class__ = watched[_WatchedParameter]
    for _, tensor in host.buffers():
        if type(tensor) is Tensor:
            tensor.__class__ = watched[_WatchedBuffer]
    before = type(model)
    attributes = {
        "_executor": executor,
        "_class_before_wrapping": before,
        "__module__": before.__module__,
        "__doc__": before.__doc__,
    }
    model.__class__ = type(before.__name__, (_WrappedModule, before), attributes)


def unwatch(model: torch.nn.Module) -> None:
    """Give a model and its weights their own classes back."""
    model.__class__ = model._class_before_wrapping
    for members, own in ((model.parameters(), torch.nn.Parameter), (model.buffers(), Tensor)):
        for tensor in members:
            if isinstance(tensor, _Watched):
                tensor.__class__ = own
