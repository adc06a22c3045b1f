"""The groups for number formats, training, and tracing."""

from typing import ClassVar

import torch

from poptorch.enums import HalfFloatCastingBehavior, MeanReductionStrategy, ReductionType
from poptorch.log import logger
from poptorch.options._group import NoneType, OptionGroup, check_count


class _PrecisionOptions(OptionGroup):
    """Number formats and rounding."""

    DEFAULTS: ClassVar = {
        "half_float_casting": (HalfFloatCastingBehavior.Default, HalfFloatCastingBehavior),
        "running_statistics_always_float": (True, bool),
        "floating_point_exceptions": (False, bool),
        "stochastic_rounding": (False, bool),
        # None: float32, which no other part of the options has a say in.
        "partials_type": (None, (torch.dtype, NoneType)),
    }

    def halfFloatCasting(self, half_float_casting: HalfFloatCastingBehavior) -> "_PrecisionOptions":
        """Has no effect any more; logs a warning. A mix of float16 and float32 follows PyTorch's rules."""
        logger.warning(
            "Precision.halfFloatCasting is deprecated and has no effect: operations on float16 and float32 "
            "follow PyTorch's type promotion."
        )
        self.half_float_casting = half_float_casting
        return self

    def runningStatisticsAlwaysFloat(self, value: bool) -> "_PrecisionOptions":
        """Has no effect any more; logs a warning. ValueError unless `value` is a bool."""
        if not isinstance(value, bool):
            raise ValueError(f"runningStatisticsAlwaysFloat takes True or False, but got {value!r}.")
        logger.warning(
            "Precision.runningStatisticsAlwaysFloat is deprecated and has no effect: running statistics have "
            "the type of their module; use module.float() or .half() on the normalisation layer."
        )
        self.running_statistics_always_float = value
        return self

    def enableFloatingPointExceptions(self, enabled: bool) -> "_PrecisionOptions":
        """Set whether division by zero, 0 x inf, inf - inf, NaN in a comparison or overflow is an Error."""
        self.floating_point_exceptions = enabled
        return self

    def enableStochasticRounding(self, enabled: bool) -> "_PrecisionOptions":
        """Set whether results rounded to float16 go up or down at random, in proportion to the distance."""
        self.stochastic_rounding = enabled
        return self

    def setPartialsType(self, dtype: torch.dtype) -> "_PrecisionOptions":
        """Set the type in which matrix products and convolutions add up: torch.float32 or torch.float16.

        ValueError for another type.
        """
        if dtype not in (torch.float32, torch.float16):
            raise ValueError(f"Partial sums can be torch.float or torch.half, but got {dtype!r}.")
        self.partials_type = dtype
        return self


class _TrainingOptions(OptionGroup):
    """Options that only training knows."""

    DEFAULTS: ClassVar = {
        "gradient_accumulation": (1, int),
        "accumulation_and_replication_reduction_type": (ReductionType.Mean, ReductionType),
        "meanAccumulationAndReplicationReductionStrategy": (
            MeanReductionStrategy.Post,
            MeanReductionStrategy,
        ),
        "auto_loss_scaling": (False, bool),
        "convolution_dithering": (False, bool),
    }

    def gradientAccumulation(self, gradient_accumulation: int) -> "_TrainingOptions":
        """Set the number of micro-batches whose gradients make one weight update."""
        check_count("gradientAccumulation", gradient_accumulation)
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

    def setMeanAccumulationAndReplicationReductionStrategy(
        self, mean_reduction_strategy: MeanReductionStrategy
    ) -> "_TrainingOptions":
        """Set where a mean over gradients is divided: as it grows (Running), or once at the end (Post).

        An optimizer whose `accum_type` is torch.float16 makes it Running. ValueError for anything but a
        MeanReductionStrategy.
        """
        if not isinstance(mean_reduction_strategy, MeanReductionStrategy):
            raise ValueError(
                f"A mean is divided by one of MeanReductionStrategy, but got {mean_reduction_strategy!r}."
            )
        self.meanAccumulationAndReplicationReductionStrategy = mean_reduction_strategy
        return self

    def setAutomaticLossScaling(self, enabled: bool) -> "_TrainingOptions":
        """Set whether the loss scaling follows the size of float16 gradients by itself."""
        self.auto_loss_scaling = enabled
        return self

    def setConvolutionDithering(self, enabled: bool) -> "_TrainingOptions":
        """Set whether convolutions start on different tiles, which evens out memory use."""
        self.convolution_dithering = enabled
        return self


class _JitOptions(OptionGroup):
    """Once chose how a model is captured; there is one way left."""

    DEFAULTS: ClassVar = {"trace_model": (False, bool)}

    def traceModel(self, trace_model: bool) -> "_JitOptions":
        """ValueError for True: a model is always captured as its `forward` runs. False only warns."""
        if trace_model:
            raise ValueError(
                "Jit.traceModel(True) asks for torch.jit.trace, which is no longer supported; leave the call "
                "out: the model's forward is run once and its operations are recorded."
            )
        logger.warning("Jit.traceModel(False) is deprecated: it is the only way a model is captured.")
        return self
