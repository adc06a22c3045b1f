"""What the learner chooses before a model is compiled."""

import copy
from typing import Any, ClassVar

import torch

from poptorch.enums import OutputMode, ReductionType


class OptionGroup:
    """Values with one setter each, readable and assignable as attributes until the group is frozen.

    A subclass lists its values in `DEFAULTS` as name -> (initial value, type). Assigning to a name that is
    not listed is an AttributeError, a value of the wrong type an AssertionError, and anything an
    AttributeError once the group is frozen.
    """

    DEFAULTS: ClassVar[dict[str, tuple[Any, type]]] = {}

    def __init__(self):
        self._frozen = False
        self._values = {name: value for name, (value, _) in self.DEFAULTS.items()}

    def __getattr__(self, name: str) -> Any:
        # Underscored names are never options: looking for one in a half-built copy must not recurse.
        if not name.startswith("_") and name in self._values:
            return self._values[name]
        raise AttributeError(
            f"{type(self).__name__} has no option {name!r}; it has {', '.join(self.DEFAULTS)}."
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
            return
        self._check_not_frozen()
        if name not in self.DEFAULTS:
            raise AttributeError(
                f"{type(self).__name__} has no option {name!r}; it has {', '.join(self.DEFAULTS)}."
            )
        _check_type(name, value, self.DEFAULTS[name][1])
        self._values[name] = value

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self._values.items())})"
        )

    def _check_not_frozen(self) -> None:
        if self._frozen:
            raise AttributeError(
                "Can't modify frozen Options: they belong to a DataLoader or a model by now. "
                "Change a copy, options.clone(), and make the model or loader again with it."
            )


def _check_type(name: str, value: Any, expected: type) -> None:
    # bool is an int to Python, but True is no number of device iterations.
    fits = isinstance(value, expected) and (expected is bool or not isinstance(value, bool))
    assert fits, (
        f"{name} must be of type {expected.__name__}, but got {value!r} of type {type(value).__name__}."
    )


def _check_count(name: str, value: int) -> None:
    _check_type(name, value, int)
    assert value > 0, f"{name} must be at least 1, but got {value}."


class _TrainingOptions(OptionGroup):
    """Options that only training knows."""

    DEFAULTS: ClassVar = {
        "gradient_accumulation": (1, int),
        "accumulation_and_replication_reduction_type": (ReductionType.Mean, ReductionType),
    }

    def gradientAccumulation(self, gradient_accumulation: int) -> "_TrainingOptions":
        """Set the number of micro-batches whose gradients make one weight update."""
        _check_count("gradientAccumulation", gradient_accumulation)
        self.gradient_accumulation = gradient_accumulation
        return self

    def accumulationAndReplicationReductionType(self, reduction_type: ReductionType) -> "_TrainingOptions":
        """Set how gradients of micro-batches and replicas combine: Mean or Sum, else a ValueError."""
        if reduction_type not in (ReductionType.Mean, ReductionType.Sum):
            raise ValueError(
                "Gradients can be reduced by ReductionType.Mean or ReductionType.Sum, but got "
                f"{reduction_type}."
            )
        self.accumulation_and_replication_reduction_type = reduction_type
        return self


class Options(OptionGroup):
    """How a model is compiled and run. Setters return the options, so calls can be chained."""

    DEFAULTS: ClassVar = {
        "device_iterations": (1, int),
        "replication_factor": (1, int),
        "output_mode": (OutputMode.Default, OutputMode),
        "output_return_period": (1, int),
        "random_seed": (None, int),
        "broadcast_buffers": (True, bool),
    }

    def __init__(self):
        super().__init__()
        self._training = _TrainingOptions()

    @property
    def Training(self) -> _TrainingOptions:
        """The options that only training knows."""
        return self._training

    def deviceIterations(self, device_iterations: int) -> "Options":
        """Set how many steps the device takes in one call of the model."""
        _check_count("deviceIterations", device_iterations)
        self.device_iterations = device_iterations
        return self

    def replicationFactor(self, replication_factor: int) -> "Options":
        """Set how many copies of the model work side by side on different micro-batches."""
        _check_count("replicationFactor", replication_factor)
        self.replication_factor = replication_factor
        return self

    def outputMode(self, output_mode: OutputMode, output_return_period: int | None = None) -> "Options":
        """Set which micro-batches' results a call returns.

        `OutputMode.EveryN` needs a positive `output_return_period` (AssertionError); other modes ignore it.
        """
        self.output_mode = output_mode
        if output_mode == OutputMode.EveryN:
            assert output_return_period is not None and output_return_period > 0, (
                f"OutputMode.EveryN needs a positive output_return_period, but got {output_return_period}."
            )
            self.output_return_period = output_return_period
        else:
            self.output_return_period = 1
        return self

    def defaultOutputMode(self) -> bool:
        """Whether the output mode is still to be chosen: Final for training, All for inference."""
        return self.output_mode == OutputMode.Default

    def randomSeed(self, random_seed: int) -> "Options":
        """Seed the device's random numbers, and the host's through `torch.manual_seed`."""
        self.random_seed = random_seed
        torch.manual_seed(random_seed)
        return self

    def broadcastBuffers(self, broadcast_buffers: bool = True) -> "Options":
        """Set whether replicas share buffers. A model that updates buffers needs False: one set each."""
        self.broadcast_buffers = broadcast_buffers
        return self

    def clone(self) -> "Options":
        """A copy that can be changed whether or not these options are frozen."""
        clone = copy.deepcopy(self)
        clone._frozen = clone._training._frozen = False
        return clone

    def _freeze(self) -> None:
        self._frozen = self._training._frozen = True

    def _micro_batches_per_call(self) -> int:
        return self.device_iterations * self.replication_factor * self._training.gradient_accumulation
