"""Emulated PopTorch: the vendor's API on an ordinary computer."""

from poptorch import optim
from poptorch.dataloader import DataLoader
from poptorch.enums import (
    AutoStage,
    CommGroupType,
    ConnectionType,
    DataLoaderMode,
    HalfFloatCastingBehavior,
    Liveness,
    MatMulSerializationMode,
    MeanReductionStrategy,
    MultiConvPlanType,
    OutputMode,
    OverlapMode,
    ReductionType,
    SharingStrategy,
    SyncPattern,
    VariableRetrievalMode,
)
from poptorch.errors import Error, RecoverableError, UnrecoverableError
from poptorch.executor import PoplarExecutor, inferenceModel, trainingModel
from poptorch.ops import identity_loss, ipuHardwareIsAvailable, ipuHardwareVersion, isRunningOnIpu
from poptorch.options import Options

__all__ = [
    "AutoStage",
    "CommGroupType",
    "ConnectionType",
    "DataLoader",
    "DataLoaderMode",
    "Error",
    "HalfFloatCastingBehavior",
    "Liveness",
    "MatMulSerializationMode",
    "MeanReductionStrategy",
    "MultiConvPlanType",
    "Options",
    "OutputMode",
    "OverlapMode",
    "PoplarExecutor",
    "RecoverableError",
    "ReductionType",
    "SharingStrategy",
    "SyncPattern",
    "UnrecoverableError",
    "VariableRetrievalMode",
    "identity_loss",
    "inferenceModel",
    "ipuHardwareIsAvailable",
    "ipuHardwareVersion",
    "isRunningOnIpu",
    "optim",
    "trainingModel",
]
