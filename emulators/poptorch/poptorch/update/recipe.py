"""What an optimizer says at one moment: its kind, its groups, and what of it may change later."""

from dataclasses import dataclass
from typing import Any

import torch

from poptorch import optim
from poptorch.errors import Error
from poptorch.log import logger
from poptorch.update.optimizer_state import VariableAttributes
from poptorch.weights.host_weights import HostWeights

# AdamW before Adam: in PyTorch it is a subclass of it.
KINDS = (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adam, torch.optim.RMSprop, optim.LAMB)
# What each kind's arithmetic depends on; other settings choose between implementations with the same result.
_ADAM = ("lr", "betas", "eps", "weight_decay", "maximize")
ATTRIBUTES = {
    torch.optim.SGD: ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"),
    torch.optim.AdamW: _ADAM,
    torch.optim.Adam: _ADAM,
    torch.optim.RMSprop: ("lr", "momentum", "alpha", "eps", "weight_decay", "centered", "maximize"),
    optim.LAMB: ("lr", "betas", "eps", "weight_decay"),
}
# What the device adds for the whole model, with the values for an optimizer of PyTorch's.
_DEVICE_ATTRIBUTES = {
    "loss_scaling": 1.0,
    "max_grad_norm": float("inf"),
    "use_combined_accum": False,
    "velocity_scaling": 1.0,
    "bias_correction": True,
    "max_weight_norm": float("inf"),
    "use_tf_variant": False,
    "accum_type": torch.float32,
    "velocity_accum_type": torch.float32,
    "first_order_momentum_accum_type": torch.float32,
    "second_order_momentum_accum_type": torch.float32,
}
# What every optimizer of PyTorch's has beside its settings.
_ORDINARY = {
    "defaults",
    "state",
    "param_groups",
    "variable_attrs",
    "ipu_state_is_dirty",
    "host_state_is_dirty",
}
Group = tuple[tuple[str, ...], dict[str, Any]]


@dataclass(frozen=True)
class Recipe:
    """An optimizer's settings at one moment; later changes to the optimizer do not reach it.

    `groups` are (names of parameters, attributes), `defaults` the attributes of a group that gives none,
    `device` the attributes that the device adds; `variable` names the attributes that may differ in a later
    recipe.
    """

    kind: type[torch.optim.Optimizer]
    groups: tuple[Group, ...]
    defaults: dict[str, Any]
    device: dict[str, Any]
    variable: frozenset[str]

    @classmethod
    def of(cls, optimizer: torch.optim.Optimizer, host: HostWeights) -> "Recipe":
        """Read an optimizer: AssertionError for a kind the device lacks, ValueError for amsgrad."""
        kind = _kind_of(optimizer)
        names = {id(tensor): names[0] for names, tensor in host.parameters()}
        device = {name: getattr(optimizer, name, value) for name, value in _DEVICE_ATTRIBUTES.items()}
        if device["max_weight_norm"] is None:
            device["max_weight_norm"] = float("inf")
        attributes = ATTRIBUTES[kind]
        if device["use_combined_accum"]:
            attributes = (*attributes, "velocity_scaling")
        groups = []
        for group in optimizer.param_groups:
            if group.get("amsgrad"):
                raise ValueError("The device's Adam and AdamW have no amsgrad variant; leave amsgrad=False.")
            if any(id(parameter) not in names for parameter in group["params"]):
                raise Error(
                    "The optimizer holds a parameter that the model does not have. Make it from this "
                    f"model's parameters: {kind.__name__}(model.parameters(), ...)."
                )
            members = tuple(names[id(parameter)] for parameter in group["params"])
            groups.append((members, _read(group, attributes, device)))
        defaults = _read(optimizer.defaults, attributes, device)
        return cls(kind, tuple(groups), defaults, device, _variable(optimizer, kind))

    @property
    def loss_scaling(self) -> float:
        """What the loss is multiplied with before it is differentiated."""
        return self.device["loss_scaling"]

    @property
    def has_momentum(self) -> bool:
        """For SGD and RMSprop: whether any group has a momentum, or may get one later."""
        return "momentum" in self.variable or any(values["momentum"] for _, values in self.groups)

    @property
    def is_centered(self) -> bool:
        """For RMSprop: whether any group subtracts the mean gradient."""
        return any(values["centered"] for _, values in self.groups)

    @property
    def kind_name(self) -> str:
        """PopART's name for this kind: SGD0 has no momentum, SGD1 a combined one, SGD2 a separate one."""
        if self.kind is torch.optim.SGD:
            if not self.has_momentum and not self.device["use_combined_accum"]:
                return "SGD0"
            return "SGD1" if self.device["use_combined_accum"] else "SGD2"
        return self.kind.__name__ + ("" if self.device["bias_correction"] else "NoBias")

    def log(self, old: "Recipe | None" = None) -> None:
        """Log settings that differ from an older recipe's, or all of them."""
        if old is None or (old.defaults, old.device) != (self.defaults, self.device):
            shown = [*self._described(self.defaults, "default"), f"lossScaling={self._shown('loss_scaling')}"]
            types = {
                "accumType": "accum_type",
                "secondOrderMomentumAccumType": "second_order_momentum_accum_type",
            }
            velocity = (
                "velocity_accum_type" if self.kind is torch.optim.SGD else "first_order_momentum_accum_type"
            )
            types["firstOrderMomentumAccumType"] = velocity
            shown += [f"{name}={str(self.device[key]).split('.')[1]}" for name, key in types.items()]
            logger.debug("Updating graph optimizer with %s %s", self.kind_name, ", ".join(shown))
        for index, group in enumerate(self.groups):
            changed = old is None or old.groups[index] != group or old.loss_scaling != self.loss_scaling
            if changed:
                shown = ", ".join(self._described(group[1], ""))
                logger.debug("Updating group %d optimizer with %s %s", index, self.kind_name, shown)

    def _described(self, values: dict[str, Any], prefix: str) -> list[str]:
        numbers = {"lr": values["lr"]}
        if self.kind is torch.optim.SGD:
            # A momentum of its own is scaled like the loss.
            numbers["velocity_scaling"] = values.get("velocity_scaling", self.loss_scaling)
        for name, value in values.items():
            if name == "betas":
                numbers |= {"beta1": value[0], "beta2": value[1]}
            elif not isinstance(value, bool):
                numbers[name] = value
        shown = []
        for name, value in numbers.items():
            attribute = "betas" if name.startswith("beta") else name
            if name == "velocity_scaling" and not self.device["use_combined_accum"]:
                attribute = "loss_scaling"
            constant = "" if attribute in self.variable else " (const)"
            shown.append(f"{_camel(prefix, name)}={value:g}{constant}")
        return shown

    def _shown(self, attribute: str) -> str:
        return f"{self.device[attribute]:g}" + ("" if attribute in self.variable else " (const)")


def _camel(prefix: str, name: str) -> str:
    words = [word for word in (prefix, *("learning_rate" if name == "lr" else name).split("_")) if word]
    return words[0] + "".join(word.capitalize() for word in words[1:])


def _read(group: dict[str, Any], attributes: tuple[str, ...], device: dict[str, Any]) -> dict[str, Any]:
    values = {name: group.get(name, device.get(name)) for name in attributes}
    return {n: value.item() if isinstance(value, torch.Tensor) else value for n, value in values.items()}


def _kind_of(optimizer: torch.optim.Optimizer) -> type[torch.optim.Optimizer]:
    for kind in KINDS:
        if isinstance(optimizer, kind):
            if type(optimizer).__module__.split(".")[0] not in ("torch", "poptorch"):
                logger.warning(
                    "%s is a subclass of %s. Poptorch does not run Python optimizer code directly: its own "
                    "step() never runs, and the device does %s's update.",
                    type(optimizer).__name__,
                    kind.__name__,
                    kind.__name__,
                )
            return kind
    names = ", ".join(kind.__name__ for kind in KINDS)
    raise AssertionError(f"The device has no {type(optimizer).__name__} optimizer; it has {names}.")


def _variable(optimizer: torch.optim.Optimizer, kind: type[torch.optim.Optimizer]) -> frozenset[str]:
    attributes: VariableAttributes | None = getattr(optimizer, "variable_attrs", None)
    if attributes is not None:
        return frozenset(attributes._variable_attributes)
    # One of PyTorch's own: what was left at its default is taken for something that will not change.
    defaults = kind([torch.nn.Parameter(torch.zeros(()))]).defaults
    changed = {n for n in ATTRIBUTES[kind] if any(g[n] != defaults[n] for g in optimizer.param_groups)}
    return frozenset(changed | {"lr"})


class UnexpectedAttributes:
    """Warns once about each attribute of an optimizer that is neither its own nor was there at first."""

    def __init__(self, first: torch.optim.Optimizer, relaxed: bool):
        self._log = logger.debug if relaxed else logger.warning
        self._known = set(_extras(first))

    def check(self, optimizer: torch.optim.Optimizer) -> None:
        """Warn about what was added since; it has no effect on the device."""
        for where, name in _extras(optimizer):
            if (where, name) not in self._known:
                self._known.add((where, name))
                self._log(
                    "Ignoring unexpected %s attribute '%s': the device's %s does not know it.",
                    where,
                    name,
                    type(optimizer).__name__,
                )


def _extras(optimizer: torch.optim.Optimizer) -> list[tuple[str, str]]:
    """(where, name) of attributes that are not part of the optimizer's kind."""
    expected = _ORDINARY | set(getattr(optimizer, "_device_attributes", ()))
    own = [name for name in vars(optimizer) if not name.startswith("_") and name not in expected]
    found = [("optimizer", name) for name in own]
    for index, group in enumerate(optimizer.param_groups):
        known = {"params", *optimizer.defaults, *_group_attributes(optimizer)}
        found += [(f"group {index}", name) for name in group if name not in known]
    return found


def _group_attributes(optimizer: torch.optim.Optimizer) -> set[str]:
    return {"velocity_scaling"} if getattr(optimizer, "use_combined_accum", False) else set()
