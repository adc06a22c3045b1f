"""What the learner chooses before a model is compiled."""

from poptorch.errors import ConfigFileError
from poptorch.options._backend import validate
from poptorch.options._distributed import _DistributedOptions
from poptorch.options._group import OptionGroup
from poptorch.options._groups import _JitOptions, _PrecisionOptions, _TrainingOptions
from poptorch.options._locations import TensorLocationSettings, _TensorLocationOptions
from poptorch.options._options import Options
from poptorch.options._popart import _PopartOptions
from poptorch.strategies import (
    ParallelPhasedExecution,
    Phase,
    PipelinedExecution,
    SerialPhasedExecution,
    ShardedExecution,
    Stage,
    _IExecutionStrategy,
    _IPhasedExecution,
)

__all__ = [
    "ConfigFileError",
    "OptionGroup",
    "Options",
    "ParallelPhasedExecution",
    "Phase",
    "PipelinedExecution",
    "SerialPhasedExecution",
    "ShardedExecution",
    "Stage",
    "TensorLocationSettings",
    "_DistributedOptions",
    "_IExecutionStrategy",
    "_IPhasedExecution",
    "_JitOptions",
    "_PopartOptions",
    "_PrecisionOptions",
    "_TensorLocationOptions",
    "_TrainingOptions",
    "validate",
]
