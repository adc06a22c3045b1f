"""All that is chosen before a model is compiled."""

import copy
import os
from typing import Any, ClassVar

import torch

from poptorch.enums import CommGroupType, ConnectionType, OutputMode, SyncPattern
from poptorch.options import _files
from poptorch.options._backend import backend_options
from poptorch.options._distributed import _DistributedOptions
from poptorch.options._group import NoneType, OptionGroup, check_count, check_type
from poptorch.options._groups import _JitOptions, _PrecisionOptions, _TrainingOptions
from poptorch.options._locations import _TensorLocationOptions
from poptorch.options._popart import _PopartOptions
from poptorch.strategies import PipelinedExecution, _IExecutionStrategy

# Generations a program can be compiled for without a device, and repeats of a line in the log.
_OFFLINE_TARGETS = (1, 2, 21)
_REPEATED_LOGS = 4


class Options(OptionGroup):
    """How a model is compiled and run. Setters return the options, so calls can be chained."""

    DEFAULTS: ClassVar = {
        "device_iterations": (1, int),
        "replication_factor": (1, int),
        "input_group_size": (1, int),
        "input_group_type": (CommGroupType.Consecutive, CommGroupType),
        "output_mode": (OutputMode.Default, OutputMode),
        "output_return_period": (1, int),
        "anchored_tensors": ({}, dict),
        "random_seed": (None, (int, NoneType)),
        "broadcast_buffers": (True, bool),
        "updatable_named_buffers": ([], list),
        "execution_strategy": (PipelinedExecution(), _IExecutionStrategy),
        "available_memory_proportion": ({}, dict),
        "auto_round_num_ipus": (False, bool),
        "ipu_model": (None, (bool, NoneType)),
        "ipu_id": (None, (int, NoneType)),
        "ipu_version": (2, int),
        "connection_type": (ConnectionType.Always, ConnectionType),
        "sync_pattern": (SyncPattern.Full, SyncPattern),
        "enable_stable_norm": (False, bool),
        "synthetic_data": (False, bool),
        "log_cycle_count": (False, bool),
        "log_dir": (".", str),
        "max_repeat_logs": (_REPEATED_LOGS, (int, NoneType)),
        "model_name": (None, (str, NoneType)),
        "profile_dir": (None, (str, NoneType)),
        "cache_dir": (None, (str, NoneType)),
        "show_compilation_progress_bar": (True, bool),
        "relax_optimizer_checks": (False, bool),
        "module_namescope_enabled": (True, bool),
        "source_location_excludes": ([], list),
    }

    def __init__(self):
        super().__init__()
        self._precision = _PrecisionOptions()
        self._training = _TrainingOptions()
        self._jit = _JitOptions()
        self._tensor_locations = _TensorLocationOptions()
        self._distributed = _DistributedOptions()
        self._popart = _PopartOptions()
        if os.environ.get("POPTORCH_CACHE_DIR"):
            self.enableExecutableCaching(os.environ["POPTORCH_CACHE_DIR"])
        if os.environ.get("POPTORCH_DEFAULT_OPTIONS"):
            self.from_json(os.environ["POPTORCH_DEFAULT_OPTIONS"])

    def _groups(self) -> dict[str, OptionGroup]:
        return {
            "Precision": self._precision,
            "Training": self._training,
            "Jit": self._jit,
            "TensorLocations": self._tensor_locations,
            "Distributed": self._distributed,
            "_Popart": self._popart,
        }

    @property
    def _execution_strategy(self) -> _IExecutionStrategy:
        """The strategy by the name that programs read it under."""
        return self.execution_strategy

    @property
    def Precision(self) -> _PrecisionOptions:
        """Number formats and rounding."""
        return self._precision

    @property
    def Training(self) -> _TrainingOptions:
        """Options that only training knows."""
        return self._training

    @property
    def Jit(self) -> _JitOptions:
        """Deprecated: how a model is captured."""
        return self._jit

    @property
    def TensorLocations(self) -> _TensorLocationOptions:
        """Which memory tensors live in."""
        return self._tensor_locations

    @property
    def Distributed(self) -> _DistributedOptions:
        """Several host processes."""
        return self._distributed

    @property
    def _Popart(self) -> _PopartOptions:
        return self._popart

    def _with(self, **values: Any) -> "Options":
        self.set(**values)
        return self

    # --- Batches and results

    def deviceIterations(self, device_iterations: int) -> "Options":
        """Set how many steps the device takes in one call of the model."""
        check_count("deviceIterations", device_iterations)
        return self._with(device_iterations=device_iterations)

    def replicationFactor(self, replication_factor: int) -> "Options":
        """Set how many copies of the model work side by side on different micro-batches."""
        check_count("replicationFactor", replication_factor)
        return self._with(replication_factor=replication_factor)

    def inputReplicaGrouping(self, input_group_size: int, input_group_type: CommGroupType) -> "Options":
        """Let groups of replicas share one micro-batch.

        ValueError when the group size does not divide the replication factor, set before, or for
        CommGroupType.All.
        """
        check_count("input_group_size", input_group_size)
        if input_group_type == CommGroupType.All:
            raise ValueError(
                "With CommGroupType.All no input would be split; group with Consecutive or Orthogonal."
            )
        if self.replication_factor % input_group_size:
            raise ValueError(
                f"Groups of {input_group_size} replicas don't make up {self.replication_factor} replicas: "
                "the group size must be a factor of replicationFactor, which must be set before."
            )
        return self._with(input_group_size=input_group_size, input_group_type=input_group_type)

    def outputMode(self, output_mode: OutputMode, output_return_period: int | None = None) -> "Options":
        """Set which micro-batches' results a call returns.

        `OutputMode.EveryN` needs a positive `output_return_period` (AssertionError); other modes ignore it.
        """
        period = _checked_period(output_mode, output_return_period)
        return self._with(output_mode=output_mode, output_return_period=period)

    def defaultOutputMode(self) -> bool:
        """Whether the output mode is still to be chosen: Final for training, All for inference."""
        return self.output_mode == OutputMode.Default

    def anchorTensor(
        self,
        short_name: str,
        long_name: str,
        output_mode: OutputMode | None = None,
        output_return_period: int | None = 1,
    ) -> "Options":
        """Make a tensor inside the model readable after each run, with `getAnchoredTensor(short_name)`.

        `long_name` is one of `getTensorNames()`, such as "Gradient___fc1.weight". The default output mode is
        that of the model.
        """
        self.checkIsFrozen("anchorTensor")
        mode = OutputMode.Default if output_mode is None else output_mode
        self.anchored_tensors[short_name] = (long_name, mode, _checked_period(mode, output_return_period))
        return self

    def randomSeed(self, random_seed: int) -> "Options":
        """Seed the device's random numbers, and the host's through `torch.manual_seed`."""
        self._with(random_seed=random_seed)
        torch.manual_seed(random_seed)
        return self

    def broadcastBuffers(self, broadcast_buffers: bool = True) -> "Options":
        """Set whether replicas share buffers. A model that updates buffers needs False: one set each."""
        return self._with(broadcast_buffers=broadcast_buffers)

    def updatableNamedBuffers(self, buffers: list[str]) -> "Options":
        """Name the buffers that `copyNamedBuffersToDevice()` may refresh."""
        return self._with(updatable_named_buffers=buffers)

    def enableSyntheticData(self, enabled: bool) -> "Options":
        """Set whether the device makes up its inputs, so that the host's speed does not matter."""
        return self._with(synthetic_data=enabled)

    def enableStableNorm(self, enabled: bool) -> "Options":
        """Set whether norms are computed in a slower, more accurate way."""
        return self._with(enable_stable_norm=enabled)

    # --- Devices

    def setExecutionStrategy(self, strategy: _IExecutionStrategy) -> "Options":
        """Choose how a model runs on several IPUs. AssertionError for anything but a strategy."""
        check_type("strategy", strategy, _IExecutionStrategy)
        return self._with(execution_strategy=strategy)

    def setAvailableMemoryProportion(self, available_memory_proportion: dict[str, float]) -> "Options":
        """Set the share of an IPU's memory that convolutions and products may use while they work.

        Keys are "IPU0", "IPU1", ...; AssertionError for others.
        """
        check_type("available_memory_proportion", available_memory_proportion, dict)
        for key in available_memory_proportion:
            assert key.startswith("IPU") and key[3:].isdigit(), (
                f"setAvailableMemoryProportion takes keys such as 'IPU0', but got {key!r}."
            )
        proportions = {int(key[3:]): float(value) for key, value in available_memory_proportion.items()}
        return self._with(available_memory_proportion=proportions)

    def autoRoundNumIPUs(self, auto_round_num_ipus: bool = True) -> "Options":
        """Set whether to take the next power of two of IPUs instead of refusing another number."""
        return self._with(auto_round_num_ipus=auto_round_num_ipus)

    def useIpuModel(self, use_model: bool) -> "Options":
        """Choose the IPU model (True) or hardware (False), whatever environment variables say."""
        return self._with(ipu_model=use_model)

    def useIpuId(self, ipu_id: int) -> "Options":
        """Use the device of this id, as `gc-info -l` lists them."""
        check_type("ipu_id", ipu_id, int)
        return self._with(ipu_id=ipu_id)

    def useOfflineIpuTarget(self, ipu_version: int = 2) -> "Options":
        """Compile without a device, for generation 1, 2 or 21 (AssertionError for others)."""
        assert ipu_version in _OFFLINE_TARGETS, (
            f"There is no IPU version {ipu_version}; there are {', '.join(map(str, _OFFLINE_TARGETS))}."
        )
        return self._with(connection_type=ConnectionType.Never, ipu_version=ipu_version)

    def connectionType(self, connection_type: ConnectionType) -> "Options":
        """Set when to take hold of the device: at once, when first run, or never."""
        return self._with(connection_type=connection_type)

    def syncPattern(self, sync_pattern: SyncPattern) -> "Options":
        """Set which IPUs wait for each other when the host sends data."""
        return self._with(sync_pattern=sync_pattern)

    # --- Files, logs, reports

    def logDir(self, log_dir: str) -> "Options":
        """Set where log files go."""
        return self._with(log_dir=log_dir)

    def maxRepeatLogs(self, max_lines: int | None) -> "Options":
        """Set how often a line that repeats itself is logged; None for always."""
        return self._with(max_repeat_logs=max_lines)

    def logCycleCount(self, log_cycle_count: bool) -> "Options":
        """Set whether `cycleCount()` will know how long a run took on the device."""
        return self._with(log_cycle_count=log_cycle_count)

    def modelName(self, name: str) -> "Options":
        """Name the model's folder among the profiles; the default is "inference" or "training"."""
        return self._with(model_name=name)

    def enableProfiling(self, profile_dir: str | None = None) -> "Options":
        """Write a report of the compiled model into a folder, by default the working directory."""
        return self._with(profile_dir="." if profile_dir is None else str(profile_dir))

    def enableExecutableCaching(self, path: str | None) -> "Options":
        """Keep compiled models in a folder and take them from there; None to stop."""
        return self._with(cache_dir=None if path is None else str(path))

    def showCompilationProgressBar(self, show: bool = True) -> "Options":
        """Set whether compilation shows its progress; `compilationTime()` needs it."""
        return self._with(show_compilation_progress_bar=show)

    def relaxOptimizerAttributesChecks(self, relax: bool = True) -> "Options":
        """Set whether unknown attributes of an optimizer are logged at level DEBUG instead of WARN."""
        return self._with(relax_optimizer_checks=relax)

    def disableModuleNamescope(self) -> "Options":
        """Leave module names out of operations' names."""
        return self._with(module_namescope_enabled=False)

    def sourceLocationExcludes(self, excludes: list[str]) -> "Options":
        """Set the fragments of paths whose lines are never given as an operation's source."""
        return self._with(source_location_excludes=list(excludes))

    def appendToLocationExcludes(self, *excludes: str) -> "Options":
        """Add to the fragments set by `sourceLocationExcludes`."""
        return self._with(source_location_excludes=[*self.source_location_excludes, *excludes])

    # --- Text, copies

    def from_json(self, string: str) -> None:
        """Call setters named in JSON, such as {"Training.gradientAccumulation": 8}."""
        _files.apply_json(self, string)

    def loadFromFile(self, filepath: str) -> "Options":
        """Call the setters listed in a file, one a line; ConfigFileError for a line that can't be read."""
        _files.apply_file(self, filepath)
        return self

    def toDict(self) -> dict[str, Any]:
        """The options as the compiler receives them. AssertionError while no output mode is chosen."""
        return backend_options(self)

    def clone(self) -> "Options":
        """A copy that can be changed whether or not these options are frozen."""
        return copy.deepcopy(self)

    def _micro_batches_per_call(self) -> int:
        """Micro-batches of different data that one call consumes."""
        groups = self.replication_factor // self.input_group_size
        return self.device_iterations * groups * self._training.gradient_accumulation


def _checked_period(mode: OutputMode, period: int | None) -> int:
    if mode != OutputMode.EveryN:
        return 1
    assert period is not None and period > 0, (
        f"OutputMode.EveryN needs a positive output_return_period, but got {period}."
    )
    return period
