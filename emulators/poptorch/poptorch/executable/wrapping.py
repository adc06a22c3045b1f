"""A learner's model becomes one for the device."""

import torch

from poptorch.enums import OutputMode
from poptorch.errors import Error
from poptorch.executor import PoplarExecutor
from poptorch.options import Options
from poptorch.strategies import PipelinedExecution, ShardedExecution


def trainingModel(
    model: torch.nn.Module | PoplarExecutor,
    options: Options | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> PoplarExecutor:
    """Wrap a model, whose forward computes the loss, for training on the device.

    The default optimizer is SGD with a learning rate of 0.01, the default output mode Final. The options are
    frozen. Until it is destroyed, the learner's model shows the device's weights whenever they are looked at.
    RuntimeError when the model is wrapped for training already.
    """
    model = model.model if isinstance(model, PoplarExecutor) else model
    if optimizer is None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    options = _private(options, OutputMode.Final)
    options._freeze()
    return PoplarExecutor(model, options, training=True, optimizer=optimizer)


def inferenceModel(model: torch.nn.Module | PoplarExecutor, options: Options | None = None) -> PoplarExecutor:
    """Wrap a model for inference on the device; the default output mode is All. The options are frozen.

    Weights that a training model of the same module changes are taken over before each call. Error when
    gradient accumulation is asked for, which only training has.
    """
    model = model.model if isinstance(model, PoplarExecutor) else model
    options = _private(options, OutputMode.All)
    options._freeze()
    accumulation = options.Training.gradient_accumulation
    if accumulation != 1:
        strategy = options.execution_strategy
        pipelined = isinstance(strategy, PipelinedExecution) and not isinstance(strategy, ShardedExecution)
        advice = (
            " Use poptorch.Options().deviceIterations to process a sufficient number of batches each run for "
            "pipelined execution instead."
        )
        raise Error(
            "You must set poptorch.Options().Training.gradientAccumulation to 1 or leave it as its default "
            f"value (1) when running a poptorch.inferenceModel().{advice if pipelined else ''} It is "
            f"{accumulation}."
        )
    return PoplarExecutor(model, options, training=False)


def _private(options: Options | None, default_mode: OutputMode) -> Options:
    """Freeze the learner's options and return a copy with the output mode settled."""
    options = Options() if options is None else options
    options._freeze()
    private = options.clone()
    if private.defaultOutputMode():
        private.outputMode(default_mode)
    return private
