"""An optimizer's numbers as the device holds them: by PopART's names, some of them combined.

What may change lies in the device's memory, where the host can read and overwrite it; the rest is part of the
program.
"""

from typing import Any

import torch

from poptorch.update.recipe import Recipe

# What combined numbers of SGD depend on; the numbers of SGD without momentum are 0, combined 1, separate 2.
_SGD0 = {"scaledLearningRate0": "rate", "weightDecayScaleFactor0": "keep"}
_SGD = {
    "scaledLearningRate": "rate",
    "scaledMomentum": "momentum",
    "dampeningScaleFactor": "grad_factor",
    "scaledWeightDecay": "decay",
}
# The other kinds': PopART's name -> our name and the optimizer's attribute that makes it variable.
_PLAIN = {
    "learningRate": ("lr", "lr"),
    "beta1": ("beta1", "betas"),
    "beta2": ("beta2", "betas"),
    "alpha": ("alpha", "alpha"),
    "momentum": ("momentum", "momentum"),
    "eps": ("eps", "eps"),
    "weightDecay": ("weight_decay", "weight_decay"),
    "maxWeightNorm": ("max_weight_norm", "max_weight_norm"),
}


class Settings:
    """The numbers of each parameter, by its name."""

    def __init__(self, recipe: Recipe):
        self.loss_scaling = float(recipe.loss_scaling)
        self._loss_scaling_is_variable = "loss_scaling" in recipe.variable
        self._names = _exposed_names(recipe)
        self._of: dict[str, dict[str, Any]] = {}
        for names, attributes in recipe.groups:
            values = _combined(attributes, recipe)
            self._of.update({name: dict(values) for name in names})
        self._keys: dict[str, tuple] = {}

    def of(self, parameter: str) -> dict[str, Any]:
        """Numbers of one parameter, by the names the arithmetic has for them."""
        return self._of[parameter]

    def key(self, parameter: str) -> tuple:
        """Equal for parameters whose numbers are all equal."""
        if parameter not in self._keys:
            self._keys[parameter] = tuple(self._of[parameter].values())
        return self._keys[parameter]

    def variable(self) -> dict[str, torch.Tensor]:
        """The numbers that may change, as scalars by PopART's names."""
        found = {
            f"{popart}___specific___{parameter}": torch.tensor(float(values[ours]))
            for parameter, values in self._of.items()
            for popart, ours in self._names.items()
        }
        if self._loss_scaling_is_variable:
            found["lossScaling_FLOAT"] = torch.tensor(self.loss_scaling)
        return found

    def load(self, given: dict[str, torch.Tensor]) -> None:
        """Overwrite numbers; those that are not given stay as they are."""
        for parameter, values in self._of.items():
            for popart, ours in self._names.items():
                number = given.get(f"{popart}___specific___{parameter}")
                if number is not None:
                    values[ours] = number.item()
        if self._loss_scaling_is_variable and "lossScaling_FLOAT" in given:
            self.loss_scaling = given["lossScaling_FLOAT"].item()
        self._keys = {}


def _exposed_names(recipe: Recipe) -> dict[str, str]:
    if recipe.kind_name == "SGD0":
        return _SGD0
    if recipe.kind is torch.optim.SGD:
        return {name + recipe.kind_name[-1]: ours for name, ours in _SGD.items()}
    return {popart: ours for popart, (ours, attribute) in _PLAIN.items() if attribute in recipe.variable}


def _combined(attributes: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    values = dict(attributes)
    maximize = bool(values.get("maximize"))
    if recipe.kind is torch.optim.SGD:
        return _combined_sgd(values, recipe) | {"maximize": maximize}
    if "betas" in values:
        values["beta1"], values["beta2"] = values.pop("betas")
    return values | {"maximize": maximize, "max_weight_norm": recipe.device["max_weight_norm"]}


def _combined_sgd(values: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """With loss scaling s, velocity scaling v, dampening d: the velocity is kept v times as large.

    SGD0: keep = 1 - lr (1 - d) decay, rate = lr (1 - d) / s. Others: grad_factor = (1 - d) v / s,
    decay = (1 - d) v decay, rate = lr / v.
    """
    lr, undamped, decay = values["lr"], 1 - values["dampening"], values["weight_decay"]
    scaling = recipe.loss_scaling
    if recipe.kind_name == "SGD0":
        return {"rate": lr * undamped / scaling, "keep": 1 - lr * undamped * decay}
    velocity_scaling = values.get("velocity_scaling", scaling)
    return {
        "rate": lr / velocity_scaling,
        "momentum": values["momentum"],
        "grad_factor": undamped * velocity_scaling / scaling,
        "decay": undamped * velocity_scaling * decay,
        "nesterov": bool(values["nesterov"]),
        "first_factor": 1 / undamped if undamped else 1.0,
    }
