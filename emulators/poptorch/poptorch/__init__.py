"""Emulated PopTorch: the vendor's API on an ordinary computer."""

from poptorch import enums, optim, options, poptorch_core, profiling, testing
from poptorch.blocks import BeginBlock, Block, BlockFunction, LegacyBeginBlockFn, module_repr, removeBlocks
from poptorch.blocks import print_module as print
from poptorch.capture.host_calls import CPU
from poptorch.capture.marks import (
    Attribute,
    NameScope,
    nop,
    recomputationCheckpoint,
    set_available_memory,
    set_overlap_for_input,
    set_overlap_for_output,
)
from poptorch.capture.structures import (
    ICustomArgParser,
    registerCustomArgParser,
    registerGeometricCustomArgParsers,
)
from poptorch.control_flow import cond, for_loop
from poptorch.custom_ops import accessAttributes, attributes_lists, custom_op, register_custom_op
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
from poptorch.errors import (
    ConfigFileError,
    Error,
    RecoverableError,
    UnrecoverableError,
    createPoptorchError,
)
from poptorch.executable.device import ipuHardwareIsAvailable, ipuHardwareVersion, poptorchAtExit
from poptorch.executable.hooks import registerPostCompileHook, registerPreCompileHook
from poptorch.executable.saving import load
from poptorch.executable.version import VERSION as __version__
from poptorch.executable.wrapping import inferenceModel, trainingModel
from poptorch.executor import PoplarExecutor
from poptorch.loading.async_loading import AsynchronousDataAccessor
from poptorch.log import setLogLevel
from poptorch.multiconv import MultiConv
from poptorch.ops import getIpuTensorId, identity_loss, isRunningOnIpu
from poptorch.options import Options, TensorLocationSettings
from poptorch.point_clouds import ctc_beam_search_decoder, fps, nearest
from poptorch.printing import ipu_print_tensor
from poptorch.slicing import dynamic_slice, dynamic_update, serializedMatMul
from poptorch.strategies import (
    BlockId,
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
)

__all__ = [
    "CPU",
    "AsynchronousDataAccessor",
    "Attribute",
    "AutoStage",
    "BeginBlock",
    "Block",
    "BlockFunction",
    "BlockId",
    "CommGroupType",
    "ConfigFileError",
    "ConnectionType",
    "DataLoader",
    "DataLoaderMode",
    "Error",
    "HalfFloatCastingBehavior",
    "ICustomArgParser",
    "LegacyBeginBlockFn",
    "Liveness",
    "MatMulSerializationMode",
    "MeanReductionStrategy",
    "MultiConv",
    "MultiConvPlanType",
    "NameScope",
    "Options",
    "OutputMode",
    "OverlapMode",
    "ParallelPhasedExecution",
    "Phase",
    "PipelinedExecution",
    "PoplarExecutor",
    "RecoverableError",
    "ReductionType",
    "SerialPhasedExecution",
    "ShardedExecution",
    "SharingStrategy",
    "Stage",
    "SyncPattern",
    "TensorLocationSettings",
    "UnrecoverableError",
    "VariableRetrievalMode",
    "__version__",
    "accessAttributes",
    "attributes_lists",
    "cond",
    "createPoptorchError",
    "ctc_beam_search_decoder",
    "custom_op",
    "dynamic_slice",
    "dynamic_update",
    "enums",
    "for_loop",
    "fps",
    "getIpuTensorId",
    "identity_loss",
    "inferenceModel",
    "ipuHardwareIsAvailable",
    "ipuHardwareVersion",
    "ipu_print_tensor",
    "isRunningOnIpu",
    "load",
    "module_repr",
    "nearest",
    "nop",
    "optim",
    "options",
    "poptorchAtExit",
    "poptorch_core",
    "print",
    "profiling",
    "recomputationCheckpoint",
    "registerCustomArgParser",
    "registerGeometricCustomArgParsers",
    "registerPostCompileHook",
    "registerPreCompileHook",
    "register_custom_op",
    "removeBlocks",
    "serializedMatMul",
    "setLogLevel",
    "set_available_memory",
    "set_overlap_for_input",
    "set_overlap_for_output",
    "testing",
    "trainingModel",
]
