"""How a model is spread over IPUs: which blocks form a stage, and whether stages overlap, alternate or queue.

a block       some operations, named in the model (`blocks.py`)
a Stage       blocks that run on one IPU
a Phase       stages that run side by side, in phased execution
a strategy    pipelined, sharded, serial or parallel phased
"""

from collections.abc import Iterable
from typing import Any

from poptorch.enums import AutoStage, Liveness
from poptorch.errors import Error

BlockId = str

# The numbers by which the compiler knows the modes.
_EXECUTION_MODES = {"Pipelined": 0, "Sharded": 1, "Phased": 2}


class Stage:
    """One or more blocks that run on one IPU. AssertionError for ids that are not strings."""

    def __init__(self, *block_ids: BlockId) -> None:
        assert block_ids and all(isinstance(block, str) for block in block_ids), (
            f"A Stage lists the ids of its blocks, which are strings, but got {block_ids}."
        )
        self._blocks = list(block_ids)
        self._ipu: int | None = None

    @property
    def blocks(self) -> list[BlockId]:
        """Ids of the stage's blocks."""
        return self._blocks

    def ipu(self, ipu: int) -> "Stage":
        """Put the stage on an IPU, whatever its blocks say."""
        self._ipu = ipu
        return self

    def __repr__(self) -> str:
        return f"Stage({', '.join(map(repr, self._blocks))}, ipu={self._ipu})"


def _as_stage(what: "Stage | BlockId | Iterable[BlockId]") -> Stage:
    if isinstance(what, Stage):
        return what
    return Stage(what) if isinstance(what, str) else Stage(*what)


class Phase:
    """Stages that run side by side: all given as `Stage`s, or all as the ids of one block each."""

    def __init__(self, *arg: Any) -> None:
        members = arg[0] if len(arg) == 1 and isinstance(arg[0], (list, tuple)) else arg
        all_stages = all(isinstance(member, Stage) for member in members)
        assert members and (all_stages or all(isinstance(member, str) for member in members)), (
            f"A Phase lists Stages, or the ids of blocks, but not a mixture and not nothing; got {members}."
        )
        self._stages = list(members) if all_stages else [Stage(*members)]

    @property
    def stages(self) -> list[Stage]:
        """The stages that run side by side."""
        return self._stages

    def stage(self, idx: int) -> Stage:
        """One of the stages."""
        return self._stages[idx]

    def ipus(self, *ipus: int) -> "Phase":
        """Put each stage on an IPU; AssertionError unless there is one for each."""
        assert len(ipus) == len(self._stages), (
            f"The phase has {len(self._stages)} stage(s) and needs as many IPUs, but got {ipus}."
        )
        for stage, ipu in zip(self._stages, ipus, strict=True):
            stage.ipu(ipu)
        return self


class _IExecutionStrategy:
    """What all strategies share: named stages, or the rule by which blocks get stages of their own."""

    mode: str

    def __init__(self, stages: list[Stage], auto_stage: AutoStage | None):
        self._auto_stage = auto_stage
        self._stages = stages
        self._stage_of: dict[BlockId, tuple[int, Stage]] = {}
        for index, stage in enumerate(stages):
            for block in stage.blocks:
                assert block not in self._stage_of, (
                    f"The block {block!r} is in two stages, but it can run in only one of them."
                )
                self._stage_of[block] = index, stage

    def stage(self, block_id: BlockId) -> Stage:
        """The stage that holds a block; AssertionError if none does."""
        return self.numbered_stage(block_id)[1]

    def numbered_stage(self, block_id: BlockId) -> tuple[int, Stage]:
        """The stage that holds a block and its position; AssertionError if none does."""
        assert block_id in self._stage_of, (
            f"Unknown block {block_id!r}: the execution strategy expects "
            f"{', '.join(map(repr, self._stage_of)) or 'none'}. Add it to a Stage, or let AutoStage make one."
        )
        return self._stage_of[block_id]

    def backendOptions(self) -> dict[str, Any]:
        """What the compiler is told about the strategy."""
        return {"execution_mode": _EXECUTION_MODES[self.mode]}

    def onStartTracing(self) -> None:
        """Error: calling the model starts tracing by itself."""
        raise Error("onStartTracing is internal to the real package; calling or compiling a model traces it.")

    def onEndTracing(self) -> None:
        """Error: tracing ends by itself."""
        raise Error("onEndTracing is internal to the real package; calling or compiling a model traces it.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._auto_stage or ', '.join(map(repr, self._stages))})"


class PipelinedExecution(_IExecutionStrategy):
    """IPUs work at the same time on different micro-batches; what happens unless another strategy is set.

    Takes an `AutoStage`, or the stages in order: `Stage`s, ids of blocks, or lists of them. AssertionError
    for a block in two stages.
    """

    mode = "Pipelined"

    def __init__(self, *args: Any) -> None:
        if not args or isinstance(args[0], AutoStage):
            assert len(args) < 2, f"Give either one AutoStage or the stages, but not both; got {args}."
            super().__init__([], args[0] if args else AutoStage.SameAsIpu)
        else:
            super().__init__([_as_stage(arg) for arg in args], None)


class ShardedExecution(PipelinedExecution):
    """IPUs work one after another on each micro-batch. Takes the same as `PipelinedExecution`."""

    mode = "Sharded"


class _IPhasedExecution(_IExecutionStrategy):
    """Stages run phase by phase; weights and activations wait in memory beside the chip.

    Takes the phases in order: each a `Phase`, a `Stage`, the id of a block, or a list of stages or of ids.
    """

    mode = "Phased"

    def __init__(self, *phases: Any) -> None:
        assert phases, "Phased execution needs the phases to run, in order; got none."
        self._phases = [phase if isinstance(phase, Phase) else Phase(phase) for phase in phases]
        self.separate_backward_phase = False
        self.liveness = Liveness.AlwaysLive
        super().__init__([stage for phase in self._phases for stage in phase.stages], None)

    def phase(self, phase: int) -> Phase:
        """One of the phases, by its position."""
        assert 0 <= phase < len(self._phases), (
            f"There are phases 0 to {len(self._phases) - 1}, but got {phase}."
        )
        return self._phases[phase]

    def phase_of(self, stage: Stage) -> tuple[int, int]:
        """In which phase a stage runs, and its position there."""
        return next(
            (index, phase.stages.index(stage))
            for index, phase in enumerate(self._phases)
            if stage in phase.stages
        )

    def useSeparateBackwardPhase(self, use: bool = True) -> "_IPhasedExecution":
        """Give the backward pass a first phase of its own instead of sharing the last forward one."""
        self.separate_backward_phase = use
        return self

    def backendOptions(self) -> dict[str, Any]:
        """What the compiler is told about the strategy."""
        return {
            **super().backendOptions(),
            "separate_backward_phase": self.separate_backward_phase,
            "serial_phases_execution": isinstance(self, SerialPhasedExecution),
            "tensors_liveness": self.liveness.value,
        }


class ParallelPhasedExecution(_IPhasedExecution):
    """Phases alternate between two groups of IPUs: even phases on even IPUs, odd phases on odd ones."""

    def sendTensorsOffChipAfterFwd(self, off_chip: bool = True) -> "ParallelPhasedExecution":
        """Send tensors off the chip between the forward and the backward pass, or keep them."""
        self.liveness = Liveness.OffChipAfterFwd if off_chip else Liveness.AlwaysLive
        return self


class SerialPhasedExecution(_IPhasedExecution):
    """Phases run one after another on one group of IPUs."""

    def setTensorsLiveness(self, liveness: Liveness) -> "SerialPhasedExecution":
        """Choose when tensors leave the chip; AssertionError unless it is a `Liveness`."""
        assert isinstance(liveness, Liveness), f"liveness must be a poptorch.Liveness, but got {liveness!r}."
        self.liveness = liveness
        return self
