"""Who works when: the parts of a model on their IPUs, and the steps in which they take the micro-batches.

A part is a run of consecutive stages on one IPU. In one step every IPU does what the step lists for it, in
that order, while the others do theirs; the step ends when the last of them is done.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from poptorch.errors import Error


@dataclass(frozen=True)
class Place:
    """Where an operation runs: its block's id, None before the first block, and the numbers of its stage,
    phase and IPU (within a replica).
    """

    block: str | None
    stage: int
    phase: int
    ipu: int


class Pass(Enum):
    """What a part does with a micro-batch."""

    FORWARD = "forward"
    RECOMPUTE = "recompute"
    BACKWARD = "backward"


@dataclass(frozen=True)
class Part:
    """Operations, by name and in order, that run on one IPU without a pause; `phase` is 0 unless phased."""

    ipu: int
    phase: int
    stages: tuple[int, ...]
    operations: tuple[str, ...]


@dataclass(frozen=True)
class Work:
    """One pass of one part, by its index, over one micro-batch, counted within a round."""

    part: int
    micro_batch: int
    kind: Pass


@dataclass(frozen=True)
class Schedule:
    """When each part of a model works, for one replica.

    A call is `rounds` rounds of `micro_batches` micro-batches, all with the same steps. In training a round
    is a device iteration and ends with the weight update; in inference the one round takes every device
    iteration. `checkpoints` names results that are kept for the backward pass although the part that made
    them computes again; `off_chip` says whether weights and activations wait outside the chip between phases.
    """

    mode: str
    training: bool
    parts: tuple[Part, ...]
    rounds: int
    micro_batches: int
    ipus: int
    recomputes: bool
    checkpoints: tuple[str, ...]
    off_chip: bool

    @property
    def pipelined(self) -> bool:
        """Whether parts work on different micro-batches at the same time."""
        return self.mode == "Pipelined" and len(self.parts) > 1

    @property
    def pipeline_stages(self) -> int:
        """Forward parts and, in training, backward parts; the last part's two passes are one stage."""
        return 2 * len(self.parts) - 1 if self.training else len(self.parts)

    @property
    def fill(self) -> int:
        """Steps of a round before every pipeline stage has work; as many as it takes to drain in the end."""
        return self.pipeline_stages - 1 if self.pipelined else 0

    def stashed(self, part: int) -> int:
        """Micro-batches whose activations a part holds at a time between their forward and backward pass."""
        if not self.training:
            return 0
        return 2 * (len(self.parts) - 1 - part) + 1 if self.pipelined else 1

    def steps(self) -> Iterator[tuple[Work, ...]]:
        """The steps of one round, in order."""
        if self.pipelined or len(self.parts) == 1:
            return self._steps_of_pipeline()
        return self._steps_in_turn()

    def _steps_of_pipeline(self) -> Iterator[tuple[Work, ...]]:
        last = len(self.parts) - 1
        for step in range(self.micro_batches + self.pipeline_stages - 1):
            work = []
            for stage in range(self.pipeline_stages):
                micro_batch = step - stage
                if 0 <= micro_batch < self.micro_batches:
                    part = min(stage, 2 * last - stage)
                    work += self._work(part, micro_batch, forward=stage <= last, backward=stage >= last)
            yield tuple(work)

    def _steps_in_turn(self) -> Iterator[tuple[Work, ...]]:
        phases = sorted({part.phase for part in self.parts})
        together = [[i for i, part in enumerate(self.parts) if part.phase == phase] for phase in phases]
        if self.mode != "Phased":
            together = [[index] for index in range(len(self.parts))]
        for micro_batch in range(self.micro_batches):
            for group in together:
                yield tuple(Work(part, micro_batch, Pass.FORWARD) for part in group)
            for group in reversed(together if self.training else []):
                yield tuple(
                    work
                    for part in group
                    for work in self._work(part, micro_batch, forward=False, backward=True)
                )

    def _work(self, part: int, micro_batch: int, forward: bool, backward: bool) -> list[Work]:
        kinds = [Pass.FORWARD] if forward else []
        if backward and self.training:
            # A part that has just gone forward still has its activations.
            kinds += [Pass.RECOMPUTE] if self.recomputes and not forward else []
            kinds += [Pass.BACKWARD]
        return [Work(part, micro_batch, kind) for kind in kinds]


def parts_of(places: Sequence[tuple[str, Place]]) -> tuple[Part, ...]:
    """Operations, each given as (name, place), gathered in parts: consecutive stages of one IPU merge."""
    stages: dict[tuple[int, int, int], list[str]] = {}
    for name, place in places:
        stages.setdefault((place.phase, place.stage, place.ipu), []).append(name)
    parts: list[Part] = []
    for (phase, stage, ipu), names in sorted(stages.items()):
        last = parts[-1] if parts else None
        if last is not None and (last.ipu, last.phase) == (ipu, phase):
            parts[-1] = Part(ipu, phase, (*last.stages, stage), (*last.operations, *names))
        else:
            parts.append(Part(ipu, phase, (stage,), tuple(names)))
    return tuple(parts)


def check_pipeline_is_fed(schedule: Schedule) -> None:
    """Error when a pipeline has fewer micro-batches between fill and drain than it has stages."""
    stages, parts = schedule.pipeline_stages, len(schedule.parts)
    if not schedule.pipelined or schedule.micro_batches >= stages:
        return
    if not schedule.training:
        raise Error(
            "poptorch.Options().deviceIterations must be greater than or equal to the number of pipeline "
            f"stages ({stages}) when using poptorch.PipelinedExecution, but it is "
            f"{schedule.micro_batches}: every stage needs a micro-batch to work on. Raise it, or use "
            "poptorch.ShardedExecution."
        )
    raise Error(
        "poptorch.Options().Training.gradientAccumulation must be greater than or equal to the number of "
        f"pipeline stages ({stages}) when using poptorch.PipelinedExecution. Please note that a model with "
        f"{parts} pipeline stages in PopTorch will have an additional {parts - 1} stages when training. It "
        f"is {schedule.micro_batches} now: raise it, or use poptorch.ShardedExecution."
    )
