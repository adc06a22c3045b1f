"""What the device's optimizers have in common: constant and variable attributes, and state that it keeps."""

from collections.abc import Callable
from typing import Any

import torch

from poptorch.log import logger


class VariableAttributes:
    """Which attributes of an optimizer may change between calls, and which are compiled into the model."""

    def __init__(self, variable_attributes: list[str], allowed_attributes: list[str]) -> None:
        self._allowed_attributes = list(allowed_attributes)
        self._variable_attributes: list[str] = []
        for attr in variable_attributes:
            self.markAsVariable(attr)

    def isConstant(self, attr: str) -> bool:
        """Whether `attr` is built into the compiled program."""
        self._check(attr)
        return attr not in self._variable_attributes

    def markAsConstant(self, attr: str) -> None:
        """Build `attr` into the program, when the model is compiled. AssertionError if unknown."""
        self._check(attr)
        if attr in self._variable_attributes:
            self._variable_attributes.remove(attr)

    def markAsVariable(self, attr: str) -> None:
        """Let `attr` change after the model is compiled. AssertionError if unknown."""
        self._check(attr)
        if attr not in self._variable_attributes:
            self._variable_attributes.append(attr)

    def _check(self, attr: str) -> None:
        assert attr in self._allowed_attributes, (
            f"The optimizer has no attribute {attr!r}; it has {', '.join(self._allowed_attributes)}."
        )


class Optimizer:
    """Mixed into PyTorch's optimizers: settings of the device, and the state it keeps there.

    `lr` and attributes given explicitly are variable, others constant. The state is copied from the device
    when somebody asks for it and it has changed, and to the device before the next run when it was loaded.
    """

    variable_attrs: VariableAttributes
    # Attributes that the device adds and `copy` has to keep.
    _device_attributes: tuple[str, ...] = ()

    def _set_up(self, given: dict[str, Any], device: dict[str, Any], variable: tuple[str, ...]) -> None:
        """Keep the `device` attributes, name -> (what was given, its default), and note what is variable.

        Of the device's, only those in `variable` can be; of PyTorch's, all that were `given`.
        """
        candidates = {**given, **{name: device[name][0] for name in variable}}
        explicit = [name for name, value in candidates.items() if value is not None]
        self.variable_attrs = VariableAttributes(["lr", *explicit], list(candidates))
        for name, (value, default) in device.items():
            setattr(self, name, default if value is None else value)
        self._device_attributes = ("variable_attrs", *device)
        self._ipu_state: dict[str, dict[str, torch.Tensor] | None] = {"ipu_state": None, "ipu_param": None}
        # Reads the state from the device that trains with this optimizer, None while there is none.
        self._read_device: Callable[[], dict[str, dict[str, torch.Tensor]]] | None = None
        self.ipu_state_is_dirty = False
        self.host_state_is_dirty = False

    def __getstate__(self) -> dict[str, Any]:
        return {
            **super().__getstate__(),
            **{name: getattr(self, name) for name in self._device_attributes},
            "_device_attributes": self._device_attributes,
            "_ipu_state": self.get_state_dict(),
            "_read_device": None,
            "ipu_state_is_dirty": False,
            "host_state_is_dirty": self.has_state(),
        }

    def state_dict(self) -> dict[str, Any]:
        """PyTorch's keys, and "ipu_state" and "ipu_param", name -> tensor: both None before compilation."""
        if self._read_device is not None and self.ipu_state_is_dirty and not self.host_state_is_dirty:
            self.set_state_dict(self._read_device())
            self.host_state_is_dirty = self.ipu_state_is_dirty = False
        elif self.has_state():
            logger.debug("Using cached optimiser state dict")
        return {**super().state_dict(), **self.get_state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over settings and state; the device gets it before the next run.

        RuntimeError for an empty dictionary, or one that no device has filled.
        """
        if not state:
            raise RuntimeError(
                "Cannot load an empty optimizer state; pass what state_dict() of such an optimizer returned."
            )
        if state.get("ipu_state") is None or state.get("ipu_param") is None:
            raise RuntimeError(
                "Only IPU optimizer states can be loaded onto the IPU. This one has no ipu_state and "
                "ipu_param: it is of an optimizer of PyTorch's, or was taken before the model was compiled."
            )
        super().load_state_dict({key: state[key] for key in ("state", "param_groups")})
        self.set_state_dict(state)

    def get_state_dict(self) -> dict[str, Any]:
        """The state as the host knows it, without asking the device."""
        return {key: None if part is None else dict(part) for key, part in self._ipu_state.items()}

    def set_state_dict(self, state: dict[str, Any]) -> None:
        """Replace the state as the host knows it; the device gets it before the next run."""
        self._ipu_state = {key: dict(state[key]) for key in ("ipu_state", "ipu_param")}
        self.host_state_is_dirty = True

    def has_state(self) -> bool:
        """Whether there is any state of a device."""
        return self._ipu_state["ipu_param"] is not None
