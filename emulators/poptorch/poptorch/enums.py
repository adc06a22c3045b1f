"""The vendor's enumerations, with the vendor's names and values."""

from enum import Enum


class OutputMode(Enum):
    """Which micro-batches' results a call hands back."""

    Final = 0
    EveryN = 1
    All = 2
    Sum = 3
    Default = 4


class ReductionType(Enum):
    """How gradients of micro-batches and replicas become one."""

    Sum = 0
    Mean = 1
    NoReduction = 2


class DataLoaderMode(Enum):
    """Who assembles the batches: this process or a worker."""

    Sync = 0
    Async = 1
    AsyncRebatched = 2


class ConnectionType(Enum):
    """When a model takes hold of its device."""

    Always = 0
    OnDemand = 1
    Never = 2


class MeanReductionStrategy(Enum):
    """Where a mean over gradients is divided: as it grows, or once at the end."""

    Running = 0
    Post = 1
    PostAndLoss = 2


class SharingStrategy(Enum):
    """How a data set reaches a worker process."""

    SharedMemory = 0
    FileSystem = 1
    Fork = 2
    ForkServer = 3


class HalfFloatCastingBehavior(Enum):
    """Once chose how float16 and float32 mix; has no effect."""

    FloatDowncastToHalf = 0
    HalfUpcastToFloat = 1
    Default = 2


class SyncPattern(Enum):
    """Which IPUs wait for each other when data comes from the host."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class MatMulSerializationMode(Enum):
    """The dimension along which a matrix product is cut into slices."""

    InputChannels = "input_channels"
    ReducingDim = "reducing_dim"
    OutputChannels = "output_channels"
    Disabled = "none"


class Liveness(Enum):
    """When phased execution sends tensors off the chip."""

    AlwaysLive = 0
    OffChipAfterFwd = 1
    OffChipAfterFwdNoOverlap = 2
    OffChipAfterEachPhase = 3


class OverlapMode(Enum):
    """Which loop host transfers may run beside."""

    NoOverlap = "no_overlap"
    OverlapAccumulationLoop = "overlap_accumulation_loop"
    OverlapDeviceIterationLoop = "overlap_device_iteration_loop"


class AutoStage(Enum):
    """How a block that names no stage gets one."""

    SameAsIpu = 0
    AutoIncrement = 1


class MultiConvPlanType(Enum):
    """Whether joined convolutions run side by side or in turn."""

    Parallel = 0
    Serial = 1


class CommGroupType(Enum):
    """How replicas are gathered into groups."""

    All = 0
    Consecutive = 1
    Orthogonal = 2
    NoGrouping = 3


class VariableRetrievalMode(Enum):
    """Whose copy of a variable the host reads."""

    OnePerGroup = 0
    AllReplicas = 2
