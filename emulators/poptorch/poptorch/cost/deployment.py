"""How a program is deployed: everything about a run that its operations don't say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from poptorch import optim
from poptorch.machine import Machine
from poptorch.options import Options
from poptorch.update.recipe import Recipe

# Poplar's default for what matrix products and convolutions may use of a tile (poplibs options
# documentation).
DEFAULT_MEMORY_PROPORTION = 0.6


@dataclass(frozen=True)
class Update:
    """A weight update: passes over the weights' elements, and state tensors as large as the weights with the
    bytes of an element of each.
    """

    passes: float = 1.0
    state_bytes: tuple[int, ...] = ()

    @classmethod
    def of(cls, recipe: Recipe) -> "Update":
        """What an optimizer's arithmetic takes: each moment is read, changed and written, roots are slow."""
        device = recipe.device
        first = device["first_order_momentum_accum_type"].itemsize
        second = device["second_order_momentum_accum_type"].itemsize
        if recipe.kind is torch.optim.SGD:
            momentum = any(group.get("momentum") for _, group in recipe.groups)
            return cls(3.0, (device["velocity_accum_type"].itemsize,)) if momentum else cls(1.0)
        return cls(LAMB.passes if recipe.kind is optim.LAMB else ADAM.passes, (first, second))


PLAIN = Update(1.0)
MOMENTUM = Update(3.0, (4,))
ADAM = Update(8.0, (4, 4))
LAMB = Update(12.0, (4, 4))
RMSPROP = Update(8.0, (4, 4))


@dataclass(frozen=True)
class Deployment:
    """Where and how a program runs.

    `memory_proportion` is by IPU of a replica. `off_chip_state`: optimizer state lies in the machine's DDR
    and is streamed for every update; `sharded_state`: each replica holds and updates its share of it.
    `asynchronous`: the host prepares the next call's data during this one. `host_seconds` is what a host
    process takes to prepare one item; `host_processes` share the work. With `synthetic` data the host does
    nothing.
    """

    machine: Machine
    replicas: int = 1
    partials: torch.dtype = torch.float32
    memory_proportion: Mapping[int, float] = field(default_factory=dict)
    update: Update = PLAIN
    trained: frozenset[str] = frozenset()
    accumulator_bytes: int = 4
    off_chip_state: bool = False
    sharded_state: bool = False
    asynchronous: bool = False
    host_seconds: float = 0.0
    host_processes: int = 1
    synthetic: bool = False

    @classmethod
    def of(cls, options: Options, machine: Machine, recipe: Recipe | None, **more: Any) -> "Deployment":
        """What PopTorch's options and an optimizer say."""
        location = options.TensorLocations.location_optimizer
        values: dict[str, Any] = {
            "replicas": options.replication_factor,
            "partials": options.Precision.partials_type or torch.float32,
            "memory_proportion": options.available_memory_proportion,
            "off_chip_state": location.get("onChip") == 0,
            "sharded_state": location.get("useReplicatedTensorSharding") == 1,
            "host_processes": options.Distributed.numProcesses,
            "synthetic": options.synthetic_data,
        }
        if recipe is not None:
            values["update"] = Update.of(recipe)
            values["trained"] = frozenset(name for names, _ in recipe.groups for name in names)
            values["accumulator_bytes"] = recipe.device["accum_type"].itemsize
        return cls(machine, **values | more)

    def proportion(self, ipu: int) -> float:
        """Share of a tile's memory that a matrix product on this IPU may use."""
        return self.memory_proportion.get(ipu, DEFAULT_MEMORY_PROPORTION)
