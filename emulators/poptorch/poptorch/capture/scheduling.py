"""From placed operations to the schedule, past every rule about IPUs and stages."""

from torch import fx

from poptorch.capture.listing import CHECKPOINT, computed
from poptorch.capture.operation_log import log_operations
from poptorch.capture.placement import check_stage_order
from poptorch.capture.program import Operation
from poptorch.capture.schedule import Schedule, check_pipeline_is_fed, parts_of
from poptorch.log import logger
from poptorch.options import Options
from poptorch.rules.ipus import reserved_ipus


def scheduled(
    graph: fx.Graph, operations: tuple[Operation, ...], training: bool, options: Options
) -> Schedule:
    """When the operations run. Error for stages out of order, too few micro-batches, or a number of IPUs.

    All of them are refusals at compile time.
    """
    places = [(operation.name, operation.place) for operation in operations]
    strategy = options.execution_strategy
    placed = dict(zip(computed(graph), (place for _, place in places), strict=True))
    check_stage_order(placed, strategy.mode == "Phased")
    parts = parts_of(places)
    accumulation, iterations = options.Training.gradient_accumulation, options.device_iterations
    pipelined = strategy.mode == "Pipelined" and len(parts) > 1
    schedule = Schedule(
        mode=strategy.mode,
        training=training,
        parts=parts,
        rounds=iterations if training else 1,
        micro_batches=accumulation if training else iterations,
        ipus=reserved_ipus(parts, options),
        recomputes=training and _recomputes(options, pipelined),
        checkpoints=tuple(each.name for each in operations if CHECKPOINT in each.attributes),
        off_chip=strategy.mode == "Phased",
    )
    check_pipeline_is_fed(schedule)
    logger.debug("enablePipelining set to value %d", pipelined)
    log_operations(operations, strategy.mode)
    return schedule


def _recomputes(options: Options, pipelined: bool) -> bool:
    """Whether parts keep only their inputs for the backward pass: what pipelines do unless told otherwise."""
    return bool(options._Popart.options.get("autoRecomputation", pipelined))
