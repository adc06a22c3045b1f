"""The device's own copies of a model's parameters and buffers, one for each group of replicas that shares."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from poptorch.capture.dtypes import device_dtype
from poptorch.enums import CommGroupType, VariableRetrievalMode
from poptorch.errors import Error

if TYPE_CHECKING:
    from poptorch.weights.host_weights import HostWeights

Tensor = torch.Tensor


@dataclass(frozen=True)
class ReplicaGrouping:
    """Which replicas share a weight: groups of `size`, next to each other or spread out.

    With 8 replicas in groups of 2, Consecutive groups are 0 1 | 2 3 | ..., Orthogonal ones 0 4 | 1 5 | ...
    """

    kind: CommGroupType
    size: int
    retrieval: VariableRetrievalMode

    def groups(self, replicas: int) -> int:
        """Number of groups. Error when the replicas don't divide into groups of that size."""
        if self.kind == CommGroupType.All:
            return 1
        size = 1 if self.kind == CommGroupType.NoGrouping else self.size
        if size < 1 or replicas % size:
            raise Error(
                f"{replicas} replicas can't be divided into groups of {size}: the second argument of "
                "replicaGrouping must be a factor of replicationFactor."
            )
        return replicas // size

    def group_of(self, replica: int, replicas: int) -> int:
        """The group a replica is in."""
        groups = self.groups(replicas)
        return replica % groups if self.kind == CommGroupType.Orthogonal else replica * groups // replicas


SHARED_BY_ALL = ReplicaGrouping(CommGroupType.All, 0, VariableRetrievalMode.OnePerGroup)


def checked_grouping(
    tensor: Tensor, kind: CommGroupType, size: int, retrieval: VariableRetrievalMode
) -> ReplicaGrouping:
    """A grouping for a parameter, whose dimension 0 counts the groups. Error for a scalar."""
    if tensor.dim() == 0:
        raise Error(
            "replicaGrouping needs a parameter whose dimension 0 counts the groups, but this one is a "
            "scalar. Stack one value for each group."
        )
    if retrieval == VariableRetrievalMode.AllReplicas and kind != CommGroupType.NoGrouping:
        raise Error(
            "VariableRetrievalMode.AllReplicas is not emulated: the host's parameter has room for one value "
            "per group. Use OnePerGroup."
        )
    return ReplicaGrouping(kind, size, retrieval)


class DeviceWeights:
    """A model's parameters and buffers on the device.

    Tied weights share one copy. Replicas share parameters, or as `groupings` says by name, groups of them do:
    `copies` holds one of each name per group. With `replicas` > 1 each replica has buffers of its own.
    """

    def __init__(
        self, host: "HostWeights", replicas: int, groupings: dict[str, ReplicaGrouping] | None = None
    ):
        self.host = host
        self._replicas = replicas
        self._groupings = groupings or {}
        self.copies: dict[str, list[torch.nn.Parameter]] = {}
        self.buffers: list[dict[str, Tensor]] = [{} for _ in range(replicas)]
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            for names, tensor in host.parameters():
                parts = self._parts(names[0], tensor)
                copies = [
                    torch.nn.Parameter(_device_copy(part), requires_grad=tensor.requires_grad)
                    for part in parts
                ]
                self.copies.update(dict.fromkeys(names, copies))
            for names, tensor in host.buffers():
                for buffers in self.buffers:
                    buffers.update(dict.fromkeys(names, _device_copy(tensor)))

    def _parts(self, name: str, tensor: Tensor) -> list[Tensor]:
        """A host parameter's values, one for each group of replicas."""
        grouping = self._groupings.get(name)
        if grouping is None:
            return [tensor]
        groups = grouping.groups(self._replicas)
        if groups == 1:
            return [tensor]
        if tensor.shape[0] != groups:
            raise Error(
                f"{name} has {tensor.shape[0]} values along dimension 0, but its replicaGrouping makes "
                f"{groups} groups of {self._replicas} replicas; there must be one for each group."
            )
        return list(tensor.unbind(0))

    @property
    def parameters(self) -> dict[str, torch.nn.Parameter]:
        """Parameters by name, as the first replica sees them."""
        return {name: copies[0] for name, copies in self.copies.items()}

    def of_replica(self, replica: int) -> dict[str, Tensor]:
        """Parameters and buffers by name, as one replica sees them."""
        parameters = {
            name: copies[self._groupings.get(name, SHARED_BY_ALL).group_of(replica, self._replicas)]
            for name, copies in self.copies.items()
        }
        return {**parameters, **self.buffers[replica]}

    def freeze_all_but(self, trained: list[torch.nn.Parameter]) -> None:
        """Stop gradients for parameters that no optimizer updates."""
        kept = set(map(id, trained))
        for copies in self.copies.values():
            for parameter in copies:
                if id(parameter) not in kept:
                    parameter.requires_grad_(False)

    def upload(self) -> None:
        """Copy the host's values to the device."""
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            for names, tensor in self.host.parameters():
                for copy, part in zip(self.copies[names[0]], self._parts(names[0], tensor), strict=True):
                    copy.copy_(part)
        self.upload_buffers(names[0] for names, _ in self.host.buffers())

    def upload_buffers(self, wanted: Iterable[str]) -> None:
        """Copy the host's values of these buffers to the device, to every replica."""
        wanted = set(wanted)
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            for names, tensor in self.host.buffers():
                if wanted.intersection(names):
                    for buffers in self.buffers:
                        buffers[names[0]].copy_(tensor)

    def download(self) -> None:
        """Copy the device's values to the host; of buffers, the first replica's."""
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            for names, tensor in self.host.parameters():
                for copy, part in zip(self.copies[names[0]], self._parts(names[0], tensor), strict=True):
                    part.copy_(copy)
            for names, tensor in self.host.buffers():
                tensor.copy_(self.buffers[0][names[0]])


def _device_copy(tensor: Tensor) -> Tensor:
    return tensor.detach().as_subclass(Tensor).to(device_dtype(tensor.dtype), copy=True)
