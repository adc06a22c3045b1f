"""Options as the compiler receives them: names and values, checked and logged when a model is compiled."""

from typing import TYPE_CHECKING, Any

import torch

from poptorch.enums import MeanReductionStrategy, ReductionType
from poptorch.errors import Error
from poptorch.log import logger

if TYPE_CHECKING:
    from poptorch.options._options import Options

# Synthetic data is drawn from a normal distribution: PopART's SyntheticDataMode.RandomNormal.
_RANDOM_NORMAL = 2
_PARTIALS = {torch.float32: "float", torch.float16: "half"}

# Session options of PopART 3.3, after the vendor's reference of SessionOptions; a dot leads into a structure.
_SESSION_OPTIONS = frozenset(
    [
        "accumulateOuterFragmentSettings.excludedVirtualGraphs",
        "accumulateOuterFragmentSettings.schedule",
        "accumulationAndReplicationReductionType",
        "accumulationFactor",
        "aliasZeroCopy",
        "autoRecomputation",
        "autodiffSettings.stitchStrategy",
        "automaticLossScalingSettings.binEdgeLocation",
        "automaticLossScalingSettings.enabled",
        "automaticLossScalingSettings.gradientTensorTrackingMethod",
        "automaticLossScalingSettings.thresholdUpperCountProportion",
        "automaticLossScalingSettings.updatePeriod",
        "batchSerializationSettings.batchSchedule",
        "batchSerializationSettings.concatOnExecutionPhaseChange",
        "batchSerializationSettings.concatOnPipelineStageChange",
        "batchSerializationSettings.concatOnVirtualGraphChange",
        "batchSerializationSettings.factor",
        "batchSerializationSettings.method",
        "batchSerializationSettings.transformContext",
        "cachePath",
        "constantWeights",
        "convolutionOptions",
        "createHostTransferableTensorWithOffset",
        "customCodeletCompileFlags",
        "customCodelets",
        "decomposeGradSum",
        "defaultBufferingDepth",
        "defaultPrefetchBufferingDepth",
        "delayVarUpdates",
        "disableGradAccumulationTensorStreams",
        "disableOptimizerStateTensorStreams",
        "dotChecks",
        "dotOpNames",
        "enableConstantFoldingOfMultipleConsumers",
        "enableDistributedReplicatedGraphs",
        "enableEfficientOverlapIOTopoCons",
        "enableEngineCaching",
        "enableExplicitIR",
        "enableExplicitMainLoops",
        "enableFloatingPointChecks",
        "enableFullyConnectedPass",
        "enableGradientAccumulation",
        "enableInplaceAmbiguityChecking",
        "enableLoadAndOffloadRNGState",
        "enableMergeExchange",
        "enableNonStableSoftmax",
        "enableOutlining",
        "enableOutliningCopyCostPruning",
        "enablePipelining",
        "enablePrefetchDatastreams",
        "enableReplicatedGraphs",
        "enableSerializedMatmuls",
        "enableStableNorm",
        "enableStochasticRounding",
        "enableSupportedDataTypeCasting",
        "enableVariablesCaching",
        "engineOptions",
        "ensureFp32LossScaleTensor",
        "executionPhaseSettings.activationIOSchedule",
        "executionPhaseSettings.optimizerStateIOSchedule",
        "executionPhaseSettings.phases",
        "executionPhaseSettings.schedule",
        "executionPhaseSettings.stages",
        "executionPhaseSettings.weightIOSchedule",
        "explicitRecomputation",
        "exportPoplarComputationGraph",
        "exportPoplarVertexGraph",
        "finalDotOp",
        "firstDotOp",
        "gclOptions",
        "globalReplicaOffset",
        "globalReplicationFactor",
        "groupHostSync",
        "groupNormStridedChannelGrouping",
        "hardwareInstrumentations",
        "instrumentWithHardwareCycleCounter",
        "kahnTieBreaker",
        "logDir",
        "lstmOptions",
        "matmulOptions",
        "meanAccumulationAndReplicationReductionStrategy",
        "mergeVarUpdate",
        "mergeVarUpdateMemThreshold",
        "numIOTiles",
        "opxAliasChecking",
        "opxModifyChecking",
        "outlineSequenceBreakCost",
        "outlineThreshold",
        "partialsTypeMatMuls",
        "rearrangeAnchorsOnHost",
        "rearrangeStreamsOnHost",
        "replicatedCollectivesSettings.mergeAllReduceCollectives",
        "replicatedCollectivesSettings.prepareScheduleForMergingCollectives",
        "replicatedGraphCount",
        "reportOptions",
        "saveInitializersToFile",
        "scheduleNonWeightUpdateGradientConsumersEarly",
        "separateCallOpPdfs",
        "serializedPoprithmsShiftGraphsDir",
        "stashAllTensorsInferencePipeline",
        "strictOpVersions",
        "subgraphCopyingStrategy",
        "swapLimitScheduler",
        "syntheticDataMode",
        "timeLimitScheduler",
        "transitiveClosureOptimizationThreshold",
        "updatableNamedBuffers",
        "useHostCopyOps",
        "useLoopCandidateCreator",
        "virtualGraphMode",
    ]
)
_SIMPLE = (bool, int, float, str)


def backend_options(options: "Options") -> dict[str, Any]:
    """What the compiler is told: own names at the top level, PopART's under "popart".

    AssertionError while no output mode is chosen.
    """
    assert not options.defaultOutputMode(), (
        "No output mode is chosen yet: trainingModel and inferenceModel choose one, or call outputMode()."
    )
    own = {name: value for name, value in options._values.items() if name not in ("execution_strategy",)}
    own |= options.execution_strategy.backendOptions()
    own |= options.Training._values | options.Precision._values
    own |= options.TensorLocations._values | options.Distributed._values
    return {**own, "patterns": options._Popart.patterns, "popart": _session_options(options)}


def _session_options(options: "Options") -> dict[str, Any]:
    """PopART's session options: those that follow from other options, and over them the raw ones."""
    training, precision = options.Training, options.Precision
    derived: dict[str, Any] = {
        "enableFloatingPointChecks": precision.floating_point_exceptions,
        "enableStochasticRounding": precision.stochastic_rounding,
        "accumulationAndReplicationReductionType": _number(
            training.accumulation_and_replication_reduction_type
        ),
        "meanAccumulationAndReplicationReductionStrategy": _number(
            training.meanAccumulationAndReplicationReductionStrategy
        ),
        "automaticLossScalingSettings.enabled": training.auto_loss_scaling,
        "enableStableNorm": options.enable_stable_norm,
        "instrumentWithHardwareCycleCounter": options.log_cycle_count,
        "logDir": options.log_dir,
    }
    if training.gradient_accumulation > 1:
        derived |= {
            "enableGradientAccumulation": True,
            "accumulationFactor": training.gradient_accumulation,
        }
    if precision.partials_type is not None:
        partials = _PARTIALS[precision.partials_type]
        derived |= {"partialsTypeMatMuls": partials, "convolutionOptions": {"partialsType": partials}}
    if options.synthetic_data:
        derived["syntheticDataMode"] = _RANDOM_NORMAL
    if options.cache_dir is not None:
        derived |= {"enableEngineCaching": True, "cachePath": options.cache_dir}
    if options.updatable_named_buffers:
        derived["updatableNamedBuffers"] = options.updatable_named_buffers
    if options.TensorLocations.num_io_tiles:
        derived["numIOTiles"] = options.TensorLocations.num_io_tiles
    return derived | options._Popart.options


def _number(member: ReductionType | MeanReductionStrategy) -> int:
    return member.value


def validate(backend: dict[str, Any]) -> None:
    """Log every option as the compiler takes it.

    Error for a PopART option that does not exist or has a value of a type none of them takes.
    """
    for name, value in backend.items():
        if isinstance(value, _SIMPLE):
            _log_set(name, value)
    for name, value in backend["popart"].items():
        if name not in _SESSION_OPTIONS:
            raise Error(
                f"Unknown PopART option {name!r} in Options._Popart.set(). Names are those of PopART's "
                "SessionOptions, with a dot before a structure's field."
            )
        _take(name, value)


def _take(name: str, value: Any) -> None:
    if isinstance(value, dict):
        for key, element in value.items():
            logger.debug("poptorch.Options set %s[%s] to %s", name, key, element)
    elif isinstance(value, (list, set, tuple)):
        for element in value:
            logger.debug("poptorch.Options added %s to %s", element, name)
    elif isinstance(value, _SIMPLE):
        _log_set(name, value)
    else:
        raise Error(
            f"Unknown value type {type(value)} for option {name}; it can be a bool, a number, a string, or "
            "a list, set or dictionary of them."
        )


def _log_set(name: str, value: Any) -> None:
    shown = str(value).lower() if isinstance(value, bool) else value
    logger.debug("poptorch.Options set %s to value %s", name, shown)
