"""From operations to time: the parts of a pipeline, the weight update, replicas, and the host."""

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from poptorch.capture.program import Program, TensorType
from poptorch.capture.schedule import Pass, Work
from poptorch.cost import constants as c
from poptorch.cost import vector
from poptorch.cost.call import Call, calls
from poptorch.cost.cycles import Cycles, total
from poptorch.cost.deployment import Deployment
from poptorch.cost.operations import OperationCost, price_list
from poptorch.cost.vector import Vector
from poptorch.machine import IPUS_PER_MACHINE


@dataclass(frozen=True)
class Execution:
    """A program on a machine; all numbers are modelled."""

    program: Program
    deployment: Deployment

    @cached_property
    def calls(self) -> dict[str, Call]:
        """Operations with their operands' types, by name."""
        return calls(self.program, self.deployment.trained, self.deployment.partials)

    @cached_property
    def prices(self) -> dict[str, OperationCost]:
        """What every operation costs for one micro-batch, by name."""
        proportions = {o.name: self.deployment.proportion(o.place.ipu) for o in self.program.operations}
        return price_list(self.calls, self.deployment.machine, proportions)

    @property
    def not_modelled(self) -> dict[str, int]:
        """Operations that the model doesn't know and how often each occurs."""
        unknown = (self.calls[name].name for name, price in self.prices.items() if not price.modelled)
        return dict(Counter(unknown))

    @property
    def share_not_modelled(self) -> float:
        """Their share of all operations, views aside: how much the time may be short of."""
        counted = [p for p in self.prices.values() if not p.modelled or p.forward.total or p.backward.total]
        return sum(not p.modelled for p in counted) / max(1, len(counted))

    # --- One micro-batch

    def part_cycles(self, part: int, kind: Pass) -> Cycles:
        """One pass of one part over one micro-batch."""
        schedule = self.program.schedule
        kept = schedule.checkpoints if kind is Pass.RECOMPUTE else ()
        prices = [self.prices[name] for name in schedule.parts[part].operations if name not in kept]
        if kind is not Pass.BACKWARD:
            return total([price.forward for price in prices])
        accumulation = self._accumulation(part) if self.program.schedule.micro_batches > 1 else Cycles()
        return total([*(price.backward for price in prices), accumulation])

    def weights_of(self, part: int) -> dict[str, TensorType]:
        """Trained weights that a part reads, by the name under which it reads them."""
        names = dict(zip(self.program.weights, self.program.weight_names, strict=False))
        wanted = {read: held for read, held in names.items() if held in self.deployment.trained}
        by_name = {operation.name: operation for operation in self.program.operations}
        read = {name for o in self.program.schedule.parts[part].operations for name in by_name[o].inputs}
        return {name: self.program.weights[name] for name in wanted if name in read}

    def _accumulation(self, part: int) -> Cycles:
        """Every gradient added to what has accumulated."""
        return total(
            [
                vector.cost(Vector(math.prod(t.shape), t.dtype, moved=0), self.deployment.machine)
                for t in self.weights_of(part).values()
            ]
        )

    def _boundary_seconds(self, part: int) -> float:
        """Time over the IPU-Links for what a part receives; its gradients take as long back."""
        parts = self.program.schedule.parts
        made = {o: index for index, each in enumerate(parts) for o in each.operations}
        types = {o.name: o.outputs for o in self.program.operations}
        by_name = {o.name: o for o in self.program.operations}
        foreign = {
            name
            for o in parts[part].operations
            for name in by_name[o].inputs
            if made.get(name, part) != part and parts[made[name]].ipu != parts[part].ipu
        }
        received = sum(math.prod(t.shape) * t.dtype.itemsize for name in foreign for t in types[name])
        machine = self.deployment.machine
        return received / machine.neighbour_bandwidth + (
            machine.seconds(machine.sync_cycles_across) if foreign else 0.0
        )

    # --- One round: accumulated micro-batches and the update

    def work_seconds(self, work: Work) -> float:
        """One pass of one part, data from its neighbours included."""
        machine = self.deployment.machine
        cycles = self._cached_cycles[work.part, work.kind].total
        boundary = 0.0 if work.kind is Pass.RECOMPUTE else self._boundaries[work.part]
        return machine.seconds(cycles) + boundary + self._loading_seconds(work.part)

    def _loading_seconds(self, part: int) -> float:
        """Time for a phase's weights to come from outside the chip, where phases keep them."""
        if not self.program.schedule.off_chip:
            return 0.0
        weights = self.weights_of(part).values()
        loaded = sum(math.prod(t.shape) * t.dtype.itemsize for t in weights)
        return loaded / self.deployment.machine.streaming_bandwidth

    @cached_property
    def _cached_cycles(self) -> dict[tuple[int, Pass], Cycles]:
        return {
            (part, kind): self.part_cycles(part, kind)
            for part in range(len(self.program.schedule.parts))
            for kind in Pass
        }

    @cached_property
    def _boundaries(self) -> list[float]:
        return [self._boundary_seconds(part) for part in range(len(self.program.schedule.parts))]

    def step_seconds(self, step: tuple[Work, ...]) -> float:
        """A step lasts as long as the IPU that has most to do."""
        busy: dict[int, float] = {}
        for work in step:
            ipu = self.program.schedule.parts[work.part].ipu
            busy[ipu] = busy.get(ipu, 0.0) + self.work_seconds(work)
            if work.kind is Pass.BACKWARD and self._recomputes_alone:
                busy[ipu] += self.work_seconds(Work(work.part, work.micro_batch, Pass.RECOMPUTE))
        return max(busy.values(), default=0.0)

    @property
    def _recomputes_alone(self) -> bool:
        """Whether one IPU computes activations again; in a pipeline the last part need not."""
        return self.program.schedule.recomputes and len(self.program.schedule.parts) == 1

    @cached_property
    def micro_batches_seconds(self) -> float:
        """All micro-batches of a round through all parts; a pipeline fills and drains."""
        kinds = Counter(
            tuple(Work(work.part, 0, work.kind) for work in step) for step in self.program.schedule.steps()
        )
        return sum(count * self.step_seconds(step) for step, count in kinds.items())

    @cached_property
    def update_seconds(self) -> float:
        """The weight update of a round: gradients reduced over replicas, state streamed, arithmetic."""
        if not self.program.schedule.training:
            return 0.0
        by_ipu: dict[int, float] = {}
        for index, part in enumerate(self.program.schedule.parts):
            by_ipu[part.ipu] = by_ipu.get(part.ipu, 0.0) + self._update_seconds(index)
        return max(by_ipu.values(), default=0.0)

    def _update_seconds(self, part: int) -> float:
        where, machine = self.deployment, self.deployment.machine
        weights = list(self.weights_of(part).values())
        elements = sum(math.prod(t.shape) for t in weights)
        shards = where.replicas if where.sharded_state else 1
        arithmetic = total(
            [
                vector.cost(
                    Vector(math.ceil(math.prod(t.shape) / shards), t.dtype, where.update.passes, sets=2),
                    machine,
                )
                for t in weights
            ]
        )
        ring = 2 * (where.replicas - 1) / where.replicas
        reduced = elements * where.accumulator_bytes * ring / (machine.link_bandwidth * c.LINK_EFFICIENCY)
        latency = machine.seconds(2 * (where.replicas - 1) * c.LINK_HOP) * bool(weights)
        # Read and written at the same time.
        streamed = elements / shards * sum(where.update.state_bytes) if where.off_chip_state else 0
        return machine.seconds(arithmetic.total) + reduced + latency + streamed / machine.streaming_bandwidth

    # --- One call

    @property
    def items(self) -> int:
        """Items of a call, over all replicas: the rows of the first input's micro-batches."""
        schedule = self.program.schedule
        shapes = [t.shape for t in self.program.inputs.values()]
        micro_batch = shapes[0][0] if shapes and shapes[0] else 1
        return micro_batch * schedule.rounds * schedule.micro_batches * self.deployment.replicas

    @property
    def device_seconds(self) -> float:
        """Time of one call on the device, without the host."""
        return self.program.schedule.rounds * (self.micro_batches_seconds + self.update_seconds)

    @property
    def device_cycles(self) -> int:
        """The same in cycles of the IPU's clock."""
        return math.ceil(self.device_seconds * self.deployment.machine.clock_hz)

    @property
    def host_seconds(self) -> float:
        """Time of one call on the host: preparing the items, and moving them over PCIe."""
        where, schedule = self.deployment, self.program.schedule
        if where.synthetic:
            return 0.0
        micro_batch = sum(math.prod(t.shape) * t.dtype.itemsize for t in self.program.inputs.values())
        moved = micro_batch * schedule.rounds * schedule.micro_batches * where.replicas
        ipus = len({part.ipu for part in schedule.parts}) * where.replicas
        links = where.machine.host_bandwidth * math.ceil(ipus / IPUS_PER_MACHINE)
        prepared = self.items * where.host_seconds / where.host_processes
        return prepared + moved / min(links, c.HOST_COPY * where.host_processes)

    @property
    def seconds(self) -> float:
        """Time of one call: host and device in turn, or side by side when loading is asynchronous."""
        host, device = self.host_seconds, self.device_seconds
        return c.CALL_SECONDS + (max(host, device) if self.deployment.asynchronous else host + device)

    @property
    def throughput(self) -> float:
        """Items a second."""
        return self.items / self.seconds
