"""Optimizers: PyTorch's, with the attributes the device adds.

They describe the update; the device does it. `step()` never runs in training on the device.
"""

from collections.abc import Iterable
from typing import Any

import torch


class VariableAttributes:
    """Which attributes of an optimizer may change between calls, and which are compiled into the model."""

    def __init__(self, variable_attributes: list[str], allowed_attributes: list[str]) -> None:
        self._allowed = list(allowed_attributes)
        self._variable = set()
        for attr in variable_attributes:
            self.markAsVariable(attr)

    def isConstant(self, attr: str) -> bool:
        """Whether `attr` is built into the compiled program."""
        return attr not in self._variable

    def markAsConstant(self, attr: str) -> None:
        """Build `attr` into the program, when the model is compiled. AssertionError if unknown."""
        self._check(attr)
        self._variable.discard(attr)

    def markAsVariable(self, attr: str) -> None:
        """Let `attr` change after the model is compiled. AssertionError if unknown."""
        self._check(attr)
        self._variable.add(attr)

    def _check(self, attr: str) -> None:
        assert attr in self._allowed, (
            f"The optimizer has no attribute {attr!r}; it has {', '.join(self._allowed)}."
        )


class Optimizer:
    """Mixed into PyTorch's optimizers. `lr` and attributes given explicitly are variable, others constant."""

    def _set_up(self, given: dict[str, Any], loss_scaling: float | None, max_grad_norm: float | None) -> None:
        device_only = {"loss_scaling": loss_scaling, "max_grad_norm": max_grad_norm}
        given = given | device_only
        explicit = [name for name, value in given.items() if value is not None]
        self.variable_attrs = VariableAttributes(["lr", *explicit], list(given))
        self.loss_scaling = 1.0 if loss_scaling is None else loss_scaling
        self.max_grad_norm = float("inf") if max_grad_norm is None else max_grad_norm


def _explicit(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


class SGD(Optimizer, torch.optim.SGD):
    """`torch.optim.SGD` with `loss_scaling`, taken out again before the update, and `max_grad_norm`."""

    def __init__(
        self,
        params: Iterable,
        lr: float,
        momentum: float | None = None,
        dampening: float | None = None,
        weight_decay: float | None = None,
        nesterov: bool | None = None,
        maximize: bool | None = None,
        loss_scaling: float | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        given = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        self._set_up(given, loss_scaling, max_grad_norm)
        super().__init__(params, **_explicit(given))


class Adam(Optimizer, torch.optim.Adam):
    """`torch.optim.Adam` with `loss_scaling`, taken out again before the update, and `max_grad_norm`."""

    def __init__(
        self,
        params: Iterable,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        maximize: bool | None = None,
        loss_scaling: float | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        given = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        self._set_up(given, loss_scaling, max_grad_norm)
        super().__init__(params, **_explicit(given))


class AdamW(Adam, torch.optim.AdamW):
    """`torch.optim.AdamW` with `loss_scaling`, taken out again before the update, and `max_grad_norm`."""
