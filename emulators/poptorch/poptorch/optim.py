"""Optimizers: PyTorch's, with the attributes the device adds.

They describe the update; the device does it. `step()` never runs in training on the device; what the device
keeps for an optimizer, its momenta and settings, appears in `state_dict()` under "ipu_state" and "ipu_param".
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from poptorch.update import steps
from poptorch.update.optimizer_state import Optimizer, VariableAttributes

__all__ = ["LAMB", "SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "VariableAttributes"]


def _explicit(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _scaling(loss_scaling: float | None) -> dict[str, Any]:
    return {"loss_scaling": (loss_scaling, 1.0)}


def _types(
    accum: torch.dtype | None, first: torch.dtype | None, second: torch.dtype | None
) -> dict[str, tuple[torch.dtype | None, torch.dtype]]:
    """Element types of the gradients that accumulate and of the two momenta; float32 unless given."""
    types = {
        "accum_type": accum,
        "first_order_momentum_accum_type": first,
        "second_order_momentum_accum_type": second,
    }
    for name, value in types.items():
        _check_type(name, value)
    return {name: (value, torch.float32) for name, value in types.items()}


def _check_type(name: str, value: torch.dtype | None) -> None:
    assert value in (None, torch.float32, torch.float16), (
        f"{name} can be torch.float32 or torch.float16, but got {value}."
    )


class SGD(Optimizer, torch.optim.SGD):
    """`torch.optim.SGD` as the device does it.

    `loss_scaling` multiplies the loss and is taken out again before the update; `max_grad_norm` bounds the
    norm of all gradients together. With `use_combined_accum` gradients accumulate in the momentum itself,
    scaled by `velocity_scaling`; else apart from it, in `accum_type` and `velocity_accum_type`.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float,
        momentum: float | None = None,
        dampening: float | None = None,
        weight_decay: float | None = None,
        nesterov: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        velocity_scaling: float | None = None,
        use_combined_accum: bool | None = None,
        accum_type: torch.dtype | None = None,
        velocity_accum_type: torch.dtype | None = None,
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
        if velocity_scaling is not None and not use_combined_accum:
            raise ValueError(
                "velocity_scaling scales the momentum in which gradients accumulate, which needs "
                "use_combined_accum=True; a momentum of its own is scaled like the loss."
            )
        _check_type("accum_type", accum_type)
        _check_type("velocity_accum_type", velocity_accum_type)
        device = {
            **_scaling(loss_scaling),
            "use_combined_accum": (use_combined_accum, False),
            "accum_type": (accum_type, torch.float32),
            "velocity_accum_type": (velocity_accum_type, torch.float32),
            "max_grad_norm": (max_grad_norm, float("inf")),
        }
        variable: tuple[str, ...] = ("loss_scaling",)
        if use_combined_accum:
            device["velocity_scaling"] = velocity_scaling, 1.0
            variable = ("loss_scaling", "velocity_scaling")
        self._set_up(given, device, variable)
        own = {**given, "foreach": foreach, "differentiable": differentiable}
        super().__init__(params, **_explicit(own))
        if use_combined_accum:
            for group in self.param_groups:
                group.setdefault("velocity_scaling", self.velocity_scaling)


class Adam(Optimizer, torch.optim.Adam):
    """`torch.optim.Adam` as the device does it: without amsgrad, with `loss_scaling` and types of its own.

    `loss_scaling` multiplies the loss and is taken out again before the update; `max_grad_norm` bounds the
    norm of all gradients together.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        foreach: bool | None = None,
        maximize: bool | None = None,
        capturable: bool | None = None,
        differentiable: bool | None = None,
        fused: bool | None = None,
        loss_scaling: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
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
        device = {
            **_scaling(loss_scaling),
            **_types(accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type),
            "max_grad_norm": (max_grad_norm, float("inf")),
        }
        self._set_up(given, device, ("loss_scaling",))
        own = {"foreach": foreach, "capturable": capturable, "differentiable": differentiable, "fused": fused}
        super().__init__(params, **_explicit({**given, **own}))


class AdamW(Optimizer, torch.optim.AdamW):
    """`torch.optim.AdamW` as the device does it, which can leave the correction of the bias out."""

    def __init__(
        self,
        params: Iterable,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        capturable: bool | None = None,
        differentiable: bool | None = None,
        fused: bool | None = None,
        loss_scaling: float | None = None,
        bias_correction: bool | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
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
        device = {
            **_scaling(loss_scaling),
            "bias_correction": (bias_correction, True),
            **_types(accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type),
            "max_grad_norm": (max_grad_norm, float("inf")),
        }
        self._set_up(given, device, ("loss_scaling",))
        own = {"foreach": foreach, "capturable": capturable, "differentiable": differentiable, "fused": fused}
        super().__init__(params, **_explicit({**given, **own}))

    def step(self, closure: Callable | None = None) -> float | None:
        """One step on the host; without bias correction it is this package's own arithmetic."""
        if self.bias_correction:
            return super().step(closure)
        return steps.on_host(self, steps.adamw, closure, bias_correction=False)


class RMSprop(Optimizer, torch.optim.RMSprop):
    """`torch.optim.RMSprop` as the device does it.

    With `use_tf_variant` it is TensorFlow's: `eps` inside the square root, and the learning rate inside the
    momentum.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | None = None,
        alpha: float | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        momentum: float | None = None,
        centered: bool | None = None,
        foreach: bool | None = None,
        maximize: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        use_tf_variant: bool | None = None,
    ) -> None:
        given = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
        }
        device = {
            **_scaling(loss_scaling),
            **_types(accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type),
            "use_tf_variant": (use_tf_variant, False),
        }
        self._set_up(given, device, ("loss_scaling",))
        own = {"foreach": foreach, "differentiable": differentiable}
        super().__init__(params, **_explicit({**given, **own}))


class LAMB(Optimizer, torch.optim.Optimizer):
    """Adam whose step for each layer is in proportion to the norm of its weights (You et al., 2020).

    `max_weight_norm` bounds that norm; None for no bound.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        bias_correction: bool | None = None,
        loss_scaling: float | None = None,
        max_weight_norm: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
    ) -> None:
        given = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        defaults = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
        device = {
            **_scaling(loss_scaling),
            "bias_correction": (bias_correction, True),
            "max_weight_norm": (max_weight_norm, float("inf")),
            **_types(accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type),
        }
        self._set_up(given, device, ("loss_scaling", "max_weight_norm"))
        super().__init__(params, {**defaults, **_explicit(given)})

    def step(self, closure: Callable | None = None) -> float | None:
        """One step on the host."""
        return steps.on_host(
            self,
            steps.lamb,
            closure,
            bias_correction=self.bias_correction,
            max_weight_norm=self.max_weight_norm,
        )
