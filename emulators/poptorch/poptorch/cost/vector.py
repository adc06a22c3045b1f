"""Everything that is not a contraction: passes over elements, reductions, and data that only moves."""

import math
from dataclasses import dataclass

import torch

from poptorch.cost import constants as c
from poptorch.cost.cycles import Cycles
from poptorch.machine import Machine

_LANE_BYTES = 8  # Each of a tile's loads and stores takes 8 bytes.
_GRAIN = 8  # Elements that popops keeps together on a tile.


@dataclass(frozen=True)
class Vector:
    """Passes over `elements` in `sets` compute sets.

    `weight` is the work on an element beside plain load, add and store; `moved` counts elements that change
    tile; `flops` is a pass's floating-point operations an element.
    """

    elements: int
    dtype: torch.dtype
    passes: float = 1.0
    weight: float = 1.0
    sets: int = 1
    moved: float = 0.0
    flops: float = 1.0


@dataclass(frozen=True)
class Move:
    """`elements` go to other tiles, in another order if `transposed`; no arithmetic."""

    elements: int
    dtype: torch.dtype
    transposed: bool = False


def cost(work: Vector | Move, machine: Machine) -> Cycles:
    """Cycles of one vector operation or move, its elements spread evenly over the tiles."""
    share = math.ceil(work.elements / machine.tiles / _GRAIN) * _GRAIN
    lanes = share * work.dtype.itemsize / _LANE_BYTES
    if isinstance(work, Move):
        bytes_moved = share * work.dtype.itemsize
        compute = c.VECTOR_SET + lanes * c.TRANSPOSE if work.transposed else 0.0
        sets = 1 if work.transposed else 0
        return Cycles(
            compute,
            bytes_moved / machine.exchange_bytes + c.EXCHANGE_START,
            (1 + sets) * machine.sync_cycles,
            0.0,
            bytes_moved,
            sets,
        )
    bytes_moved = math.ceil(work.moved / machine.tiles) * work.dtype.itemsize
    return Cycles(
        work.sets * c.VECTOR_SET + work.passes * work.weight * lanes * c.VECTOR,
        bytes_moved / machine.exchange_bytes + work.sets * c.EXCHANGE_START,
        2 * work.sets * machine.sync_cycles,
        work.passes * work.flops * work.elements,
        bytes_moved,
        work.sets,
    )
