"""Where each operation runs: the stage, phase and IPU that its block and the execution strategy give it."""

from torch import fx

from poptorch.capture import notes
from poptorch.capture.schedule import Place
from poptorch.capture.source import located, source_of
from poptorch.enums import AutoStage
from poptorch.errors import Error
from poptorch.strategies import ParallelPhasedExecution, Stage, _IExecutionStrategy, _IPhasedExecution

FIRST = Place(block=None, stage=0, phase=0, ipu=0)
# Where operations are after the last block has ended: nowhere.
_OUTSIDE = "outside"


class Placer:
    """Gives places to blocks in the order in which `forward` begins them."""

    def __init__(self, strategy: _IExecutionStrategy):
        self.strategy = strategy
        self._made: dict[str, Stage] = {}
        self._numbers: dict[str, int] = {}
        self._next_id = 0
        notes.note(place=FIRST)

    def restart_numbering(self) -> None:
        """Call the next block without a name "0"."""
        self._next_id = 0

    def begin(self, block: str | None, ipu: int | None) -> None:
        """Put the operations that follow into a block. AssertionError when no stage or IPU can be found."""
        if block is None:
            block, self._next_id = str(self._next_id), self._next_id + 1
        notes.note(place=self._place(block, ipu))

    def end(self) -> None:
        """Leave the block; operations that follow without one are refused."""
        notes.note(place=_OUTSIDE)

    def _place(self, block: str, ipu: int | None) -> Place:
        strategy = self.strategy
        if isinstance(strategy, _IPhasedExecution):
            number, stage = strategy.numbered_stage(block)
            phase, position = strategy.phase_of(stage)
            return Place(block, number, phase, _phased_ipu(strategy, stage, phase, position, ipu))
        if strategy._auto_stage is None:
            number, stage = strategy.numbered_stage(block)
            chosen = ipu if stage._ipu is None else stage._ipu
            return Place(block, number, 0, number if chosen is None else chosen)
        if strategy._auto_stage is AutoStage.SameAsIpu:
            assert ipu is not None, (
                f"The block {block!r} needs an ipu_id: with AutoStage.SameAsIpu its stage is the number of "
                "its IPU. Give ipu_id, list the block in a Stage, or use AutoStage.AutoIncrement."
            )
            return Place(block, ipu, 0, ipu)
        # Stage 0 is what runs before the first block.
        number = self._numbers.setdefault(block, len(self._numbers) + 1)
        return Place(block, number, 0, number - 1 if ipu is None else ipu)


def _phased_ipu(strategy: _IPhasedExecution, stage: Stage, phase: int, position: int, ipu: int | None) -> int:
    alternates = isinstance(strategy, ParallelPhasedExecution)
    default = 2 * position + phase % 2 if alternates else position
    chosen = next(choice for choice in (stage._ipu, ipu, default) if choice is not None)
    if alternates and chosen % 2 != phase % 2:
        raise Error(
            f"Phase {phase} has a stage on IPU {chosen}, but in ParallelPhasedExecution even phases run on "
            f"even IPUs and odd phases on odd ones. Move it, for instance with phase.ipus(...)."
        )
    return chosen


def place_of(node: fx.Node) -> Place:
    """Where a captured operation runs. Error for one outside all blocks of a model that has blocks."""
    place = notes.fact(node, "place")
    if place is None:
        # Added to the graph by its lowering: beside what it reads or, reading weights only, at the front.
        made = [needed for needed in node.all_input_nodes if needed.op == "call_function"]
        return place_of(made[0]) if made else FIRST
    if place is _OUTSIDE:
        raise located(
            f"No active Block, all the ops must belong to a Block: {node.target} comes after the last block "
            "has ended. Put it into a `with poptorch.Block(...)`, or start blocks with poptorch.BeginBlock, "
            "which go on until the next.",
            source_of(node),
        )
    return place


def check_stage_order(places: dict[fx.Node, Place], phased: bool) -> None:
    """Error when an operation needs a result of a later stage."""
    for node, place in places.items():
        for needed in node.all_input_nodes:
            earlier = places.get(needed)
            # Stages of one phase run side by side and may exchange results.
            if earlier is None or earlier.phase < place.phase or earlier.stage <= place.stage:
                continue
            if phased and earlier.phase == place.phase:
                continue
            raise located(
                f"The stages can't be scheduled: {node.target} in block {place.block!r} is of stage "
                f"{place.stage}, but needs {needed.target} of the later stage {earlier.stage} (block "
                f"{earlier.block!r}). Stage numbers must rise along the model. With AutoStage.SameAsIpu a "
                "model can't go back to an earlier IPU; AutoStage.AutoIncrement gives every block the next "
                "number.",
                source_of(node),
            )
