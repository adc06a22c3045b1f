"""What a program needs of every tile's memory: modelled, by what is always live and what is live at the peak.

Always live: weights, optimizer state, gradient accumulators, code, and buffers for streams to the host. Not
always live: activations that wait for their backward pass, stashed by a pipeline or recomputed, gradients on
their way, and what matrix products gather before they start.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from poptorch.capture.program import TensorType
from poptorch.capture.schedule import Part, Pass
from poptorch.cost import constants as c
from poptorch.cost.execution import Execution
from poptorch.cost.saved import Lifetimes, lifetimes
from poptorch.machine import KIB

# Bytes of a tensor that Poplar keeps together on a tile (poputil's mapping of tensors: 128 bytes).
_GRAIN = 128
# A region of a tile that nothing may use (Target: memory element offsets and the loader's stack).
_RESERVED = 4 * KIB


@dataclass(frozen=True)
class Held:
    """A tensor in memory: what it is, its bytes on the whole IPU, and how many copies wait in a pipeline."""

    name: str
    kind: str
    bytes: int
    copies: int = 1

    @property
    def total(self) -> int:
        """Bytes of all copies."""
        return self.bytes * self.copies


@dataclass(frozen=True)
class Moment:
    """One operation in one pass, and the tensors that are live while it runs; `temporary` is bytes a tile."""

    operation: str
    kind: Pass
    live: tuple[Held, ...]
    temporary: float

    @cached_property
    def bytes(self) -> int:
        """Bytes of the live tensors on the whole IPU, temporaries aside."""
        return sum(held.total for held in self.live)


def _size(type_: TensorType) -> int:
    return math.prod(type_.shape) * type_.dtype.itemsize


@dataclass(frozen=True)
class IpuMemory:
    """Memory of one IPU of a replica."""

    execution: Execution
    ipu: int

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the model on this IPU."""
        return tuple(part for part in self.execution.program.schedule.parts if part.ipu == self.ipu)

    # --- Always live

    @cached_property
    def always_live(self) -> tuple[Held, ...]:
        """Tensors and code that are there from loading to the end."""
        return (*self._weights, *self._code, *self._streams)

    @cached_property
    def _weights(self) -> list[Held]:
        program, where = self.execution.program, self.execution.deployment
        names = dict(zip(program.weights, program.weight_names, strict=False))
        by_name = {operation.name: operation for operation in program.operations}
        read = {name for part in self.parts for o in part.operations for name in by_name[o].inputs}
        shards = where.replicas if where.sharded_state else 1
        held: list[Held] = []
        for name, type_ in program.weights.items():
            if name not in read:
                continue
            known, elements = names.get(name, name), math.prod(type_.shape)
            held.append(Held(known, "weight", _size(type_)))
            if program.schedule.training and known in where.trained:
                if program.schedule.micro_batches > 1:
                    held.append(Held(known, "gradient accumulator", elements * where.accumulator_bytes))
                if not where.off_chip_state:
                    state = elements * sum(where.update.state_bytes) // shards
                    held.append(Held(known, "optimizer state", state))
        return held

    @cached_property
    def _code(self) -> list[Held]:
        """Vertex code, and per compute set its vertices' state, exchange and control code; a pass each."""
        schedule = self.execution.program.schedule
        passes = [Pass.FORWARD, Pass.BACKWARD] if schedule.training else [Pass.FORWARD]
        indices = [index for index, part in enumerate(schedule.parts) if part.ipu == self.ipu]
        sets = sum(self.execution.part_cycles(index, kind).sets for index in indices for kind in passes)
        per_tile = c.CODE_BYTES + sets * c.CODE_BYTES_PER_SET
        return [Held("vertices, exchange and control code", "code", round(per_tile * self._tiles))]

    @cached_property
    def _streams(self) -> list[Held]:
        program = self.execution.program
        first = min((part.ipu for part in program.schedule.parts), default=0)
        if self.ipu != first:
            return []
        return [Held(name, "stream buffer", _size(type_)) for name, type_ in program.inputs.items()]

    # --- Not always live

    @cached_property
    def moments(self) -> list[Moment]:
        """What is live, operation by operation, through the forward and the backward pass of this IPU's
        parts.

        A pipeline has filled: the stashed micro-batches are there all the time.
        """
        schedule = self.execution.program.schedule
        found: list[Moment] = []
        for index, part in enumerate(schedule.parts):
            if part.ipu == self.ipu:
                found += _Walk(self.execution, index, self._lifetimes).moments()
        return found

    @cached_property
    def _lifetimes(self) -> Lifetimes:
        return lifetimes(self.execution.program, self.execution.calls)

    @cached_property
    def peak(self) -> Moment | None:
        """The moment that needs most; None for an IPU without operations."""
        return max(self.moments, key=lambda m: m.bytes + m.temporary * self._tiles, default=None)

    # --- Tiles

    @property
    def _tiles(self) -> int:
        return self.execution.deployment.machine.tiles

    @cached_property
    def always_live_tiles(self) -> np.ndarray:
        """Bytes on each tile that are always live."""
        return self._spread(self.always_live) + _RESERVED

    @cached_property
    def tiles(self) -> np.ndarray:
        """Bytes on each tile at the peak, all together."""
        if self.peak is None:
            return self.always_live_tiles
        live = self._spread(self.peak.live) * c.UNEVEN
        return self.always_live_tiles + live + self.peak.temporary

    def _spread(self, tensors: tuple[Held, ...]) -> np.ndarray:
        """Each tensor over as many tiles as it has grains, from the first tile on, as Poplar maps tensors."""
        counts = np.zeros(self._tiles)
        for held in tensors:
            used = max(1, min(self._tiles, math.ceil(held.bytes / _GRAIN)))
            counts[:used] += held.total / used
        return counts

    @property
    def fits(self) -> bool:
        """Whether no tile needs more than it has."""
        return bool(self.tiles.max() <= self.execution.deployment.machine.memory_per_tile)

    def by_kind(self) -> dict[str, int]:
        """Bytes on the whole IPU at the peak by kind of tensor, temporaries included."""
        sums: dict[str, int] = {}
        for held in (*self.always_live, *(self.peak.live if self.peak else ())):
            sums[held.kind] = sums.get(held.kind, 0) + held.total
        if self.peak:
            sums["temporary"] = round(self.peak.temporary * self._tiles)
        return sums


class _Walk:
    """Follows one part through its passes and notes what is live."""

    def __init__(self, execution: Execution, index: int, lives: Lifetimes):
        self.execution, self.index, self.lives = execution, index, lives
        program = execution.program
        self.part = program.schedule.parts[index]
        self.sizes = {o.name: sum(map(_size, o.outputs)) for o in program.operations}
        self.sizes |= {name: _size(type_) for name, type_ in program.inputs.items()}
        mine = set(self.part.operations)
        self.operations = [o for o in program.operations if o.name in mine]
        self.known: dict[tuple[str, str, int], Held] = {}

    def _root(self, name: str) -> str:
        return self.lives.roots.get(name, name)

    def _held(self, names: set[str], kind: str, copies: int = 1) -> list[Held]:
        found = []
        for name in sorted(names):
            if self.sizes.get(name):
                key = name, kind, copies
                if key not in self.known:
                    self.known[key] = Held(name, kind, self.sizes[name], copies)
                found.append(self.known[key])
        return found

    def moments(self) -> list[Moment]:
        """Forward, then, in training, backward: recomputed segments by segments from their checkpoints."""
        schedule = self.execution.program.schedule
        if not schedule.training:
            return self._forward(self.operations, [], set())
        kept = self._checkpoints() if schedule.recomputes else self._saved(self.operations)
        stash = self._held(kept, "stash", max(1, schedule.stashed(self.index)))
        found = self._forward(self.operations, stash, kept)
        segments = self._segments(kept) if schedule.recomputes else [self.operations]
        for segment in reversed(segments):
            again = self._saved(segment) - kept
            if schedule.recomputes:
                found += self._forward(segment, stash, kept, Pass.RECOMPUTE)
            found += self._backward(segment, stash, again)
        return found

    def _saved(self, operations: list) -> set[str]:
        return {name for o in operations for name in self.lives.saved[o.name]}

    def _checkpoints(self) -> set[str]:
        """What a part keeps that computes again: its inputs and the results marked as checkpoints."""
        mine = {o.name for o in self.operations}
        inputs = {self._root(name) for o in self.operations for name in o.inputs} - mine
        marked = {self._root(name) for name in self.execution.program.schedule.checkpoints} & mine
        return {name for name in inputs if name not in self.execution.program.weights} | marked

    def _segments(self, kept: set[str]) -> list[list]:
        """Operations between checkpoints."""
        segments: list[list] = [[]]
        for operation in self.operations:
            segments[-1].append(operation)
            if operation.name in kept:
                segments.append([])
        return [segment for segment in segments if segment]

    def _forward(
        self, operations: list, stash: list[Held], kept: set[str], kind: Pass = Pass.FORWARD
    ) -> list[Moment]:
        keep = kept | (self._saved(operations) if kind is Pass.RECOMPUTE else set())
        last_use = {self._root(name): o.name for o in operations for name in (*o.inputs, o.name)}
        live: set[str] = set()
        found = []
        for operation in operations:
            live.add(self._root(operation.name))
            temporary = self.execution.prices[operation.name].forward.temporary
            now = (*stash, *self._held(live - kept, "activation"))
            found.append(Moment(operation.name, kind, now, temporary))
            live -= {name for name in live if last_use.get(name) == operation.name and name not in keep}
        return found

    def _backward(self, segment: list, stash: list[Held], saved: set[str]) -> list[Moment]:
        live, gradients = set(saved), set()
        # The first operation that saved a tensor is the last whose backward pass needs it.
        released: dict[str, str] = {}
        for operation in segment:
            for name in self.lives.saved[operation.name]:
                released.setdefault(name, operation.name)
        found = []
        for operation in reversed(segment):
            call = self.execution.calls[operation.name]
            inputs = {self._root(name) for name in operation.inputs if name in self.sizes}
            if call.wants_gradient:
                gradients |= inputs | {self._root(operation.name)}
            temporary = self.execution.prices[operation.name].backward.temporary
            now = (*stash, *self._held(live, "activation"), *self._held(gradients, "gradient"))
            found.append(Moment(operation.name, Pass.BACKWARD, now, temporary))
            gradients.discard(operation.name)
            live = {name for name in live if released.get(name) != operation.name}
        return found
