"""The wrapped model: what the learner calls, and its life from compilation to destruction."""

import logging
from typing import Any

import torch

from poptorch import rules, run, weights
from poptorch.batching import Batching
from poptorch.capture import ModelAtWrapping, capture
from poptorch.enums import OutputMode
from poptorch.errors import Error
from poptorch.inputs import Arguments, CompiledInputs, HostToDevice, check_device_takes
from poptorch.options import Options
from poptorch.program import Program
from poptorch.update import Recipe, WeightUpdate

logger = logging.getLogger("poptorch")


class PoplarExecutor:
    """A model wrapped for the device by `trainingModel` or `inferenceModel`.

    Attributes it does not have itself are those of the learner's model.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        options: Options,
        training: bool,
        optimizer: torch.optim.Optimizer | None = None,
    ):
        self._model = model
        self._options = options
        self._training = training
        self._batching = Batching.of(options)
        self._host = weights.HostWeights.of(model)
        self._recipe = Recipe.of(optimizer, self._host) if training else None
        self._wrap()

    def _wrap(self) -> None:
        if self._training and weights.is_watched(self._model):
            raise RuntimeError(
                "The model has already been wrapped for training; call destroy() on it before wrapping again."
            )
        self._at_wrapping = ModelAtWrapping(self._model)
        self._arguments = Arguments(self._at_wrapping.module.forward)
        self._to_device = HostToDevice()
        self._program: Program | None = None
        self._attached = False
        self._wrapped = True
        if self._training:
            weights.watch(self._model, self)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_") or "_model" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {attribute!r}")
        return getattr(self._model, attribute)

    def __repr__(self) -> str:
        return repr(self._model)

    @property
    def model(self) -> torch.nn.Module:
        """The learner's model."""
        return self._model

    @property
    def options(self) -> Options:
        """The options the model was wrapped with, frozen."""
        return self._options

    @property
    def program(self) -> Program | None:
        """The captured program, None before the model is compiled."""
        return self._program

    # --- Compiling and running

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run one call's worth of micro-batches; the first call compiles.

        Every tensor's dimension 0 is device iterations x accumulation x replicas x micro-batch. Later calls
        take exactly the shapes, types and values of the first (Error otherwise).
        """
        leaves, tree = self._arguments.flatten(args, kwargs)
        if self._program is None:
            self._compile(leaves, tree)
        else:
            self._compiled_inputs.check(leaves, tree)
        if not self._attached:
            self.attachToDevice()
        self._upload_if_shared_weights_changed()
        outputs = self._run(self._to_device(leaves))
        if self._training:
            self._host.mark_stale(self._weights)
        return self._program.outputs(outputs)

    def _run(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        if self._program.uses_random_numbers:
            with self._random_numbers:
                return self._run_loop(inputs)
        return self._run_loop(inputs)

    def _run_loop(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        if self._training:
            return run.train(self._program, self._fixed, inputs, self._batching, self._update)
        return run.infer(self._program, self._fixed, inputs, self._batching)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Trace and compile for these arguments without running; a second time only warns."""
        if self._program is not None:
            logger.warning(
                "The model is compiled already; compile() did nothing. To compile anew, call destroy() first."
            )
            return
        self._compile(*self._arguments.flatten(args, kwargs))

    def _compile(self, leaves: list[Any], tree: Any) -> None:
        if not self._wrapped:
            self._wrap()
        check_device_takes(leaves)
        self._batching.check(leaves)
        self._host.synchronise()
        replicas = self._batching.replicas
        device = weights.DeviceWeights(self._host, replicas)
        tensors = next(self._batching.split(self._to_device(leaves)))

        def arguments_of(traced: tuple) -> tuple[tuple, dict]:
            remaining = iter(traced)
            filled = [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            return self._arguments.unflatten(filled, tree)

        program = capture(self._at_wrapping, device.of_replica(0), arguments_of, tensors, self._training)
        rules.check_replicated_buffers(program.updated_buffers, replicas, self._options.broadcast_buffers)
        self._compiled_inputs = CompiledInputs.of(leaves, tree)
        self._fixed = run.fixed_arguments(program, device, replicas)
        self._random_numbers = run.RandomNumbers(self._options.random_seed)
        if self._training:
            self._update = WeightUpdate(self._recipe, device, self._options)
        self._weights, self._uploaded = device, self._host.version
        self._program, self._attached = program, True

    def _upload_if_shared_weights_changed(self) -> None:
        if not self._training:
            self._host.synchronise()
            if self._uploaded != self._host.version:
                self._upload()

    def _upload(self) -> None:
        self._host.synchronise()
        self._weights.upload()
        self._uploaded = self._host.version

    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Train on with another optimizer's settings; momenta are kept.

        Error when a compiled model would need a constant, the kind or the groups of parameters changed.
        """
        if not self._training:
            raise Error("Only a training model has an optimizer; this one was made by inferenceModel.")
        recipe = Recipe.of(optimizer, self._host)
        if self._program is not None:
            self._update.change(recipe)
        self._recipe = recipe

    # --- Weights

    def copyWeightsToHost(self) -> None:
        """Copy the device's weights and buffers to the learner's model. Error before compilation."""
        self._check_compiled()
        if self._attached:
            self._host.mark_stale(self._weights)
            self._host.synchronise()

    def copyWeightsToDevice(self) -> None:
        """Copy the learner's weights and buffers to the device. Error before compilation."""
        self._check_compiled()
        if self._attached:
            self._upload()

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Copy the device's weights to the learner's model if they are newer; returns whether they were."""
        return self._host.synchronise()

    def load_state_dict(self, state_dict: dict[str, torch.Tensor], strict: bool = True) -> Any:
        """Load weights into the learner's model, and into the device if it is attached."""
        result = self._model.load_state_dict(state_dict, strict)
        if self._attached:
            self._upload()
        return result

    # --- Life cycle

    def isCompiled(self) -> bool:
        """Whether there is a compiled program."""
        return self._program is not None

    def isAttachedToDevice(self) -> bool:
        """Whether the model holds its device."""
        return self._attached

    def detachFromDevice(self) -> None:
        """Bring the learner's weights up to date and let go of the device; the next call takes it again.

        Optimizer state and random numbers survive. Error when not attached.
        """
        self._check_compiled()
        if not self._attached:
            raise Error(
                "Device is not attached: there is nothing to detach from. Calling the model attaches it "
                "again."
            )
        self._host.synchronise()
        self._attached = False

    def attachToDevice(self) -> None:
        """Take the device again and upload the learner's weights. Error when attached already."""
        self._check_compiled()
        if self._attached:
            raise Error("Device is already attached: call detachFromDevice() before attaching again.")
        self._attached = True
        self._upload()

    def destroy(self) -> None:
        """Bring the learner's weights up to date, free the device, and unwrap the model.

        A later call of this wrapper wraps and compiles anew.
        """
        self._host.synchronise()
        if self._training and self._wrapped:
            weights.unwatch(self._model)
        self._program = self._weights = self._fixed = self._update = None
        self._attached = self._wrapped = False

    def _check_compiled(self) -> None:
        if self._program is None:
            raise Error(
                "The model has not been compiled or has been destroyed; call it or compile() it first."
            )


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
    return PoplarExecutor(model, _private(options, OutputMode.Final), training=True, optimizer=optimizer)


def inferenceModel(model: torch.nn.Module | PoplarExecutor, options: Options | None = None) -> PoplarExecutor:
    """Wrap a model for inference on the device; the default output mode is All. The options are frozen.

    Weights that a training model of the same module changes are taken over before each call. Error when
    gradient accumulation is asked for, which only training has.
    """
    model = model.model if isinstance(model, PoplarExecutor) else model
    options = _private(options, OutputMode.All)
    accumulation = options.Training.gradient_accumulation
    if accumulation != 1:
        raise Error(
            "gradientAccumulation must be 1 for inference, which has no gradients, but it is "
            f"{accumulation}. Use options of their own for inference, or deviceIterations to run several "
            "micro-batches a call."
        )
    return PoplarExecutor(model, options, training=False)


def _private(options: Options | None, default_mode: OutputMode) -> Options:
    """Freeze the learner's options and return a frozen copy with the output mode settled."""
    options = Options() if options is None else options
    options._freeze()
    private = options.clone()
    if private.defaultOutputMode():
        private.outputMode(default_mode)
    private._freeze()
    return private
