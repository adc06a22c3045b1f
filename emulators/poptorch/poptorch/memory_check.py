"""Whether a program fits its IPUs, and what a learner is told when it doesn't."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from poptorch.cost.execution import Execution
from poptorch.errors import Error
from poptorch.machine import KIB
from poptorch.memory import Held, IpuMemory

# Poplar's name for it (poplar::graph_memory_allocation_error).
_TYPE = "graph_memory_allocation_error"
_LOWER_PROPORTION = 0.2


@dataclass(frozen=True)
class Remedy:
    """Something to try, and the bytes it would save on the fullest tile."""

    advice: str
    saving: float


def memory_by_ipu(execution: Execution) -> dict[int, IpuMemory]:
    """Memory of every IPU that a replica uses."""
    ipus = sorted({part.ipu for part in execution.program.schedule.parts})
    return {ipu: IpuMemory(execution, ipu) for ipu in ipus}


def check_fits(execution: Execution) -> None:
    """Error when a tile needs more than it has: how much, which tiles and tensors, and what to try."""
    for memory in memory_by_ipu(execution).values():
        if not memory.fits:
            raise Error(out_of_memory_message(memory), type=_TYPE)


def out_of_memory_message(memory: IpuMemory) -> str:
    """What is said of an IPU that is too small."""
    tiles, limit = memory.tiles, memory.execution.deployment.machine.memory_per_tile
    fullest = np.argsort(-tiles, kind="stable")[:5]
    first = int(np.argmax(tiles > limit))
    lines = [
        f"Out of memory on tile {first}: {round(tiles[first])} bytes used but tiles only have {limit} bytes "
        f"of memory (IPU {memory.ipu}, {int((tiles > limit).sum())} of {len(tiles)} tiles; modelled).",
        "Fullest tiles: " + ", ".join(f"{tile} ({round(tiles[tile]):,} bytes)" for tile in fullest),
    ]
    if memory.peak is not None:
        lines.append(
            f"The peak is in the {memory.peak.kind.value} pass of {memory.peak.operation}, and the biggest "
            "tensors there are:"
        )
        lines += [f"  {_described(held, memory)}" for held in biggest(memory)]
    lines.append("Try:")
    lines += [
        f"  {remedy.advice}: saves about {remedy.saving / KIB:.0f} KiB a tile" for remedy in remedies(memory)
    ]
    return "\n".join(lines)


def biggest(memory: IpuMemory, count: int = 5) -> list[Held]:
    """The tensors that take most at the peak, always live or not."""
    live = (*memory.always_live, *(memory.peak.live if memory.peak else ()))
    return sorted((held for held in live if held.kind != "code"), key=lambda held: held.total, reverse=True)[
        :count
    ]


def _described(held: Held, memory: IpuMemory) -> str:
    copies = f" x {held.copies} micro-batches" if held.copies > 1 else ""
    operation = next((o for o in memory.execution.program.operations if o.name == held.name), None)
    where = f" of {operation.module}" if operation is not None and operation.module else ""
    return f"{held.name}{where}: {held.bytes / 2**20:.1f} MiB{copies} ({held.kind})"


def remedies(memory: IpuMemory, count: int = 3) -> list[Remedy]:
    """The things to try that save most on an IPU; most are modelled again, with the change."""
    before = memory.tiles.max()
    found = []
    for advice, change in _CHANGES:
        changed = change(memory)
        if isinstance(changed, Execution):
            found.append(Remedy(advice, before - IpuMemory(changed, memory.ipu).tiles.max()))
        elif changed is not None:
            found.append(Remedy(advice, changed))
    worth = [remedy for remedy in found if remedy.saving > KIB]
    return sorted(worth, key=lambda remedy: remedy.saving, reverse=True)[:count]


# --- What may be changed: each gives the changed execution, bytes saved a tile, or None if it can't be done


def _recompute(memory: IpuMemory) -> Execution | None:
    program = memory.execution.program
    if program.schedule.recomputes or not program.schedule.training:
        return None
    # Checkpoints at every root-of-n-th operation: as many are kept as are computed again at a time.
    checkpoints = tuple(
        name
        for part in program.schedule.parts
        for name in part.operations[:: max(1, round(math.sqrt(len(part.operations))))]
    )
    schedule = replace(program.schedule, recomputes=True, checkpoints=checkpoints)
    return replace(memory.execution, program=replace(program, schedule=schedule))


def _smaller_micro_batch(memory: IpuMemory) -> float | None:
    rows = next((t.shape[0] for t in memory.execution.program.inputs.values() if t.shape), 1)
    if rows == 1 or memory.peak is None:
        return None
    return memory.peak.bytes / memory.execution.deployment.machine.tiles / 2


def _lower_proportion(memory: IpuMemory) -> Execution | None:
    where = memory.execution.deployment
    if where.proportion(memory.ipu) <= _LOWER_PROPORTION:
        return None
    proportions = {**where.memory_proportion, memory.ipu: _LOWER_PROPORTION}
    return replace(memory.execution, deployment=replace(where, memory_proportion=proportions))


def _state_off_chip(memory: IpuMemory) -> Execution | None:
    where = memory.execution.deployment
    if where.off_chip_state or not where.update.state_bytes:
        return None
    return replace(memory.execution, deployment=replace(where, off_chip_state=True))


def _half(memory: IpuMemory) -> float | None:
    single = any(t.dtype == torch.float32 for t in memory.execution.program.weights.values())
    if not single or memory.peak is None:
        return None
    weights = sum(held.total for held in memory.always_live if held.kind == "weight")
    return (weights + memory.peak.bytes) / 2 / memory.execution.deployment.machine.tiles


def _more_ipus(memory: IpuMemory) -> float:
    return float(memory.tiles.mean()) / 2


_CHANGES: tuple[tuple[str, Callable[[IpuMemory], Execution | float | None]], ...] = (
    (
        "recompute activations, with options._Popart.set('autoRecomputation', 3) and "
        "poptorch.recomputationCheckpoint after every few layers",
        _recompute,
    ),
    ("halve the micro-batch and double gradientAccumulation", _smaller_micro_batch),
    (f"lower setAvailableMemoryProportion to {_LOWER_PROPORTION}", _lower_proportion),
    ("move optimizer state off the chip, with TensorLocations.setOptimizerLocation", _state_off_chip),
    ("half precision, with model.half() and loss scaling", _half),
    ("twice as many IPUs, with a block in the middle of the model", _more_ipus),
)
