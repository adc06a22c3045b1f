"""The optimizer of a training model: its settings and state, as the host and the device know them."""

from collections.abc import Callable

import torch

from poptorch.enums import MeanReductionStrategy
from poptorch.log import logger
from poptorch.optim import Optimizer
from poptorch.options import Options
from poptorch.update.recipe import Recipe, UnexpectedAttributes
from poptorch.update.weight_update import WeightUpdate
from poptorch.weights.device_weights import DeviceWeights
from poptorch.weights.host_weights import HostWeights


def accumulates_in_half(optimizer: torch.optim.Optimizer) -> bool:
    """Whether gradients add up in float16, where a sum could overflow, and not in a combined momentum."""
    combined = getattr(optimizer, "use_combined_accum", False)
    return getattr(optimizer, "accum_type", torch.float32) == torch.float16 and not combined


class TrainingState:
    """Carries settings and state between the learner's optimizer and the device's update.

    `update` is the device's, None while the model is not compiled. `options` are the model's own.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, host: HostWeights, options: Options):
        self.optimizer = optimizer
        self.update: WeightUpdate | None = None
        self._host = host
        self._options = options
        self._recipe = Recipe.of(optimizer, host)
        self._unexpected = UnexpectedAttributes(optimizer, options.relax_optimizer_checks)
        self._settle_strategy(optimizer)

    def _settle_strategy(self, optimizer: torch.optim.Optimizer) -> None:
        """Make a mean over float16 gradients a running one. ValueError once the model is compiled."""
        training = self._options.Training
        running = MeanReductionStrategy.Running
        if not accumulates_in_half(optimizer):
            return
        if training.meanAccumulationAndReplicationReductionStrategy == running:
            return
        if self.update is not None:
            raise ValueError(
                "The optimizer's accum_type torch.float16 needs MeanReductionStrategy.Running, but the model "
                "is already compiled with another strategy. Choose it with options.Training."
                "setMeanAccumulationAndReplicationReductionStrategy before, or call destroy() first."
            )
        with training._thawed():
            training.setMeanAccumulationAndReplicationReductionStrategy(running)

    def compile(self, weights: DeviceWeights, device: bool) -> None:
        """Build the device's update; with a `device`, not an offline target, it shares its state."""
        self.update = WeightUpdate(self._recipe, weights, self._options)
        if device:
            self._share_state()

    def _share_state(self) -> None:
        if isinstance(self.optimizer, Optimizer):
            self.optimizer._read_device = self._read
            self.optimizer.ipu_state_is_dirty = True
            if self.optimizer.has_state():
                self._write()

    def set_optimizer(self, optimizer: torch.optim.Optimizer, back_up: Callable[[], None]) -> None:
        """Go on with another optimizer's settings, or what the same one's have become; momenta stay."""
        self._unexpected.check(optimizer)
        recipe = Recipe.of(optimizer, self._host)
        self._settle_strategy(optimizer)
        if self.update is None:
            self.optimizer, self._recipe = optimizer, recipe
            return
        if optimizer is not self.optimizer:
            shared = getattr(self.optimizer, "_read_device", None) is not None
            self._stop_sharing()
            self.optimizer = optimizer
            if shared and isinstance(optimizer, Optimizer):
                optimizer._read_device = self._read
                optimizer.ipu_state_is_dirty = True
        self.before_run(back_up)
        self.update.change(recipe)
        self._recipe = recipe
        self._mark_changed()

    def before_run(self, back_up: Callable[[], None]) -> None:
        """Give the device the state that was loaded into the optimizer, if any was.

        The device takes weights and state together, so its weights are backed up before.
        """
        if isinstance(self.optimizer, Optimizer) and self.optimizer.host_state_is_dirty:
            back_up()
            self._write()

    def _mark_changed(self) -> None:
        """Note that the device's state is newer than the host's."""
        if isinstance(self.optimizer, Optimizer):
            self.optimizer.ipu_state_is_dirty = True

    after_run = _mark_changed

    def save_to_host(self) -> None:
        """Read the state from the device into a poptorch optimizer, before the device is let go of."""
        optimizer = self.optimizer
        if isinstance(optimizer, Optimizer) and optimizer._read_device and optimizer.ipu_state_is_dirty:
            optimizer.state_dict()

    def upload(self) -> None:
        """Give the device, which has been taken again, the host's state."""
        if isinstance(self.optimizer, Optimizer) and self.optimizer.has_state():
            self._write()

    def release(self) -> None:
        """Forget the device. A poptorch optimizer keeps the state for the next one."""
        self.save_to_host()
        if isinstance(self.optimizer, Optimizer) and self.optimizer.has_state():
            self.optimizer.host_state_is_dirty = True
        self._stop_sharing()
        self.update = None

    def _stop_sharing(self) -> None:
        if isinstance(self.optimizer, Optimizer):
            self.optimizer._read_device = None
            self.optimizer.ipu_state_is_dirty = False

    def _read(self) -> dict[str, dict[str, torch.Tensor]]:
        logger.debug("Writing optimiser state tensors from IPU to host.")
        return self.update.state()

    def _write(self) -> None:
        logger.debug("Writing optimiser state tensors from host to IPU memory")
        self.update.load(self.optimizer.get_state_dict())
        self.optimizer.host_state_is_dirty = False
        self.optimizer.ipu_state_is_dirty = True
