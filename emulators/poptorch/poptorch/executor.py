"""The wrapped model: what the learner calls, and its life from compilation to destruction."""

from typing import Any

import torch

from poptorch import blocks
from poptorch.capture.program import Program
from poptorch.capture.trace import ModelAtWrapping
from poptorch.enums import CommGroupType, ConnectionType, VariableRetrievalMode
from poptorch.errors import Error
from poptorch.executable import device, hooks, saving
from poptorch.executable.compilation import Executable, compile_model
from poptorch.executable.measured import Measured
from poptorch.executable.session import Session
from poptorch.log import logger
from poptorch.options import Options
from poptorch.run.batching import Batching
from poptorch.run.inputs import Arguments, HostToDevice
from poptorch.update.training_state import TrainingState
from poptorch.weights import host_weights as weights
from poptorch.weights.device_weights import ReplicaGrouping, checked_grouping


class PoplarExecutor(Measured):
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
        self._groupings: dict[str, ReplicaGrouping] = {}
        self._optimizer = TrainingState(optimizer, self._host, options) if training else None
        self._wrap()

    def _wrap(self) -> None:
        if self._training and weights.is_watched(self._model):
            raise RuntimeError(
                "Model has already been wrapped in 'poptorch.trainingModel'. Call model.destroy() on the "
                "model to unwrap before wrapping again."
            )
        self._at_wrapping = ModelAtWrapping(self._model)
        self._arguments = Arguments(self._at_wrapping.module.forward)
        self._to_device = HostToDevice()
        self._session: Session | None = None
        self._attached = False
        self._wrapped = True
        if self._training:
            weights.watch(self._model, self)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_") or "_model" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {attribute!r}")
        value = getattr(self._model, attribute)
        if type(value) is torch.nn.Parameter:
            return weights.groupable(value, self)
        return value

    def __repr__(self) -> str:
        return blocks.module_repr(self._model)

    def __reduce__(self) -> tuple:
        # Elsewhere the model is wrapped again; what was compiled is saved by save().
        optimizer = self._optimizer.optimizer if self._training else None
        return type(self), (self._model, self._options, self._training, optimizer)

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
        return None if self._session is None else self._session.executable.program

    # --- Compiling and running

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run one call's worth of micro-batches; the first call compiles.

        Every tensor's dimension 0 is device iterations x accumulation x replicas x micro-batch. Later calls
        take exactly the shapes, types and values of the first (Error otherwise). AssertionError for a model
        that is only to be compiled (ConnectionType.Never).
        """
        assert self._options.connection_type != ConnectionType.Never, (
            "Trying to run a model on an offline device (ConnectionType.Never): it can only be compiled. Use "
            "other options to run it, or save it with compileAndExport."
        )
        leaves, tree = self._arguments.flatten(args, kwargs)
        if self._session is None:
            self._compile(leaves, tree)
        else:
            leaves = self._session.executable.inputs.check(leaves, tree)
        if not self._attached:
            self.attachToDevice()
        self._upload_if_shared_weights_changed()
        if self._training:
            self._optimizer.before_run(self.copyWeightsToHost)
        outputs = self._session.run(self._to_device(leaves))
        self._to_device.write_back()
        if self._training:
            self._host.mark_stale(self._implicit_copy)
            self._optimizer.after_run()
        return outputs

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Trace and compile for these arguments without running; a second time only warns."""
        if self._session is not None:
            logger.warning(
                "The model is compiled already; compile() did nothing. To compile anew, call destroy() first."
            )
            return
        self._compile(*self._arguments.flatten(args, kwargs))

    def _compile(self, leaves: list[Any], tree: Any) -> None:
        if not self._wrapped:
            self._wrap()
        if not self._training:
            # Training works on a copy made when the model was wrapped, inference on the model itself.
            self._at_wrapping = ModelAtWrapping(self._model)
        hooks.before_compilation()
        self._host.synchronise()
        copies = weights.DeviceWeights(self._host, self._batching.replicas, self._groupings)
        executable = compile_model(
            self._at_wrapping,
            self._arguments,
            leaves,
            tree,
            copies,
            self._options,
            self._training,
            self._to_device,
        )
        self._install(executable, copies)
        hooks.after_compilation()

    def _install(self, executable: Executable, copies: weights.DeviceWeights) -> None:
        """Make an executable the one that runs, and take the device unless that is to wait."""
        has_device = self._options.connection_type != ConnectionType.Never
        if self._training:
            self._optimizer.compile(copies, has_device)
        update = self._optimizer.update if self._training else None
        self._session = Session(executable, copies, self._options, self._batching, update)
        self._uploaded = self._host.version
        if self._options.connection_type == ConnectionType.Always:
            self._take_device()

    def _take_device(self) -> None:
        if not self._session.target.is_model:
            device.acquire(self, self.program.schedule.ipus, self._options.ipu_id)
        logger.debug("Writing weights from host to IPU memory")
        self._session.log_random_numbers("Setting")
        self._attached = True

    def _upload_if_shared_weights_changed(self) -> None:
        if not self._training:
            self._host.synchronise()
            if self._uploaded != self._host.version:
                self._upload()

    def _upload(self) -> None:
        self._host.synchronise()
        logger.debug("Writing weights from host to IPU memory")
        self._session.weights.upload()
        self._uploaded = self._host.version

    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Train on with another optimizer's settings; momenta are kept.

        Error when a compiled model would need a constant, the kind or the groups of parameters changed;
        ValueError when gradients would have to be reduced in another way.
        """
        if not self._training:
            raise Error("Only a training model has an optimizer; this one was made by inferenceModel.")
        self._optimizer.set_optimizer(optimizer, self.copyWeightsToHost)

    # --- Weights

    def copyWeightsToHost(self) -> None:
        """Copy the device's weights and buffers to the learner's model. Error before compilation."""
        self._check_compiled()
        if self._attached:
            logger.debug("copyWeightsToHost()")
            logger.debug("Writing weights from IPU to host")
            self._session.weights.download()
            self._host.mark_fresh()
            self._uploaded = self._host.version

    def copyWeightsToDevice(self) -> None:
        """Copy the learner's weights and buffers to the device. Error before compilation."""
        self._check_compiled()
        if self._attached:
            self._upload()

    def copyWeightsToHostIfNeeded(self) -> bool:
        """Copy the device's weights to the learner's model if they are newer; returns whether they were."""
        return self._host.synchronise()

    def _implicit_copy(self) -> None:
        self.copyWeightsToHost()

    def copyNamedBuffersToDevice(self) -> None:
        """Copy the buffers named by `Options.updatableNamedBuffers` to the device; Error if none are."""
        self._check_compiled()
        names = self._options.updatable_named_buffers
        if not names:
            raise Error(
                "copyNamedBuffersToDevice copies the buffers that Options.updatableNamedBuffers names, and "
                "it names none. Name them before the model is wrapped."
            )
        self._session.weights.upload_buffers(names)

    def load_state_dict(self, state_dict: dict[str, torch.Tensor], strict: bool = True) -> Any:
        """Load weights into the learner's model, and into the device if it is attached."""
        result = self._model.load_state_dict(state_dict, strict)
        if self._attached:
            self._upload()
        return result

    def group_replicas(
        self, parameter: torch.Tensor, kind: CommGroupType, size: int, retrieval: VariableRetrievalMode
    ) -> None:
        """Give each group of replicas its own value of a parameter, along its dimension 0."""
        names = next(
            names for names, tensor in self._host.parameters() if tensor.data_ptr() == parameter.data_ptr()
        )
        self._groupings[names[0]] = checked_grouping(parameter, kind, size, retrieval)

    # --- Files

    def save(self, filename: str, export_model: bool = True, save_rng_state: bool = True) -> None:
        """Write the executable to a file, with the model unless `export_model` is False.

        A folder gets a file `model.poptorch`. Error before compilation.
        """
        self._check_compiled()
        saving.save(
            filename,
            self._session.executable,
            self._options,
            self._training,
            self._model if export_model else None,
            self._optimizer.optimizer if self._training and export_model else None,
            self._session.random_state if save_rng_state else None,
        )

    def compileAndExport(self, filename: str, *args: Any, export_model: bool = True, **kwargs: Any) -> None:
        """Compile for these arguments, and save."""
        self.compile(*args, **kwargs)
        self.save(filename, export_model, save_rng_state=False)

    def loadExecutable(self, filename: str) -> None:
        """Take the executable from a file instead of compiling. Error for a file of another version."""
        content = saving.read_executable(filename)
        if not self._wrapped:
            self._wrap()
        self._host.synchronise()
        copies = weights.DeviceWeights(self._host, self._batching.replicas, self._groupings)
        self._install(content["executable"], copies)
        if content["random_state"] is not None:
            self._session.random_state = content["random_state"]

    # --- Life cycle

    def isCompiled(self) -> bool:
        """Whether there is a compiled program."""
        return self._session is not None

    def isAttachedToDevice(self) -> bool:
        """Whether the model holds its device."""
        return self._attached

    def detachFromDevice(self) -> None:
        """Bring weights and optimizer up to date and let go of the device; the next call takes it again.

        Optimizer state and random numbers survive. Error when not attached.
        """
        self._check_compiled()
        if not self._attached:
            raise Error(
                "Device is not attached: there is nothing to detach from. Calling the model attaches it "
                "again."
            )
        self._host.synchronise()
        if self._training:
            self._optimizer.save_to_host()
        self._session.log_random_numbers("Reading")
        device.release(self)
        logger.debug("Detached from device")
        self._attached = False

    def attachToDevice(self) -> None:
        """Take the device again and upload the learner's weights. Error when attached already."""
        self._check_compiled()
        if self._attached:
            raise Error("Device is already attached: call detachFromDevice() before attaching again.")
        self._take_device()
        self._upload()
        if self._training:
            self._optimizer.upload()

    def destroy(self) -> None:
        """Bring weights and optimizer up to date, free the device, and unwrap the model.

        A later call of this wrapper wraps and compiles anew.
        """
        self._host.synchronise()
        if self._training:
            self._optimizer.release()
            if self._wrapped:
                weights.unwatch(self._model)
        device.release(self)
        self._session = None
        self._attached = self._wrapped = False
