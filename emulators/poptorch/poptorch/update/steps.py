"""The arithmetic of one weight update, for the device and for optimizers that PyTorch has no `step` for.

Gradients come reduced over micro-batches but still scaled like the loss. Sums are float32 whatever the type
of weights and momenta. State has PopART's names: Accl1 and Accl2 for the moments, Accl3 for the mean
gradient, Step for the number of updates.
"""

from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor
State = dict[str, Tensor]


def sgd(params: list[Tensor], grads: list[Tensor], rate: float, keep: float) -> None:
    """p <- keep x p - rate x g."""
    if keep != 1.0:
        torch._foreach_mul_(params, keep)
    torch._foreach_add_(params, grads, alpha=-rate)


def sgd_with_momentum(
    param: Tensor,
    grad: Tensor,
    state: State,
    *,
    rate: float,
    momentum: float,
    grad_factor: float,
    decay: float,
    nesterov: bool,
    first_factor: float,
) -> None:
    """v <- momentum x v + grad_factor x g + decay x p, then p <- p - rate x v.

    As in PyTorch the first v is the bare gradient: `first_factor` undoes the dampening in it. `Step` counts.
    """
    weight, velocity = _float(param), _float(state["Accl1"])
    change = grad.float() * grad_factor
    if decay:
        change = change.add_(weight, alpha=decay)
    if int(state["Step"]) == 0 and not velocity.any():
        velocity = change * first_factor
    else:
        velocity = velocity.mul_(momentum).add_(change)
    state["Step"].add_(1)
    step = change.add_(velocity, alpha=momentum) if nesterov else velocity
    param.copy_(weight.add_(step, alpha=-rate))
    state["Accl1"].copy_(velocity)


def sgd_fused(
    params: list[Tensor],
    grads: list[Tensor],
    states: list[State],
    *,
    rate: float,
    momentum: float,
    grad_factor: float,
    decay: float,
) -> None:
    """The same as `sgd_with_momentum` without Nesterov, after the first step, in one pass over float32."""
    torch._foreach_add_([state["Step"] for state in states], 1)
    torch._fused_sgd_(
        params,
        grads,
        [state["Accl1"] for state in states],
        lr=rate,
        momentum=momentum,
        dampening=1 - grad_factor,
        weight_decay=decay / grad_factor,
        nesterov=False,
        maximize=False,
        is_first_step=False,
    )


def adam_fused(
    params: list[Tensor], grads: list[Tensor], states: list[State], decoupled: bool, **settings: float
) -> None:
    """Adam, or with `decoupled` weight decay AdamW, in one pass over float32 weights and moments."""
    counts = [state["Step"] for state in states]
    torch._foreach_add_(counts, 1)
    kernel = torch._fused_adamw_ if decoupled else torch._fused_adam_
    kernel(
        params,
        grads,
        [state["Accl1"] for state in states],
        [state["Accl2"] for state in states],
        [],
        counts,
        amsgrad=False,
        maximize=False,
        **settings,
    )


def _moments(
    grad: Tensor, state: State, beta1: float, beta2: float, bias_correction: bool
) -> tuple[Tensor, Tensor]:
    """Update both moments and the count; returns the moments, corrected for their start at zero if asked."""
    first = _float(state["Accl1"]).mul_(beta1).add_(grad, alpha=1 - beta1)
    second = _float(state["Accl2"]).mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    state["Accl1"].copy_(first)
    state["Accl2"].copy_(second)
    state["Step"].add_(1)
    if not bias_correction:
        return first, second
    count = state["Step"]
    return first / (1 - beta1 ** count.double()).float(), second / (1 - beta2 ** count.double()).float()


def adam(
    param: Tensor,
    grad: Tensor,
    state: State,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    bias_correction: bool,
) -> None:
    """Adam, whose weight decay is part of the gradient."""
    weight = _float(param)
    grad = grad.float()
    grad = grad.add(weight, alpha=weight_decay) if weight_decay else grad
    first, second = _moments(grad, state, beta1, beta2, bias_correction)
    param.copy_(weight.addcdiv_(first, second.sqrt().add_(eps), value=-lr))


def adamw(
    param: Tensor,
    grad: Tensor,
    state: State,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    bias_correction: bool,
) -> None:
    """Adam with weight decay apart from the gradient."""
    weight = _float(param).mul_(1 - lr * weight_decay)
    first, second = _moments(grad.float(), state, beta1, beta2, bias_correction)
    param.copy_(weight.addcdiv_(first, second.sqrt().add_(eps), value=-lr))


def lamb(
    param: Tensor,
    grad: Tensor,
    state: State,
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    bias_correction: bool,
    max_weight_norm: float,
) -> None:
    """Adam's step with weight decay, scaled by the norm of the weights over the norm of the step.

    After You et al., "Large Batch Optimization for Deep Learning", 2020, algorithm 2; where either norm is
    zero the step is not scaled.
    """
    weight = _float(param)
    first, second = _moments(grad.float(), state, beta1, beta2, bias_correction)
    step = first / (second.sqrt() + eps)
    if weight_decay:
        step = step.add_(weight, alpha=weight_decay)
    weight_norm, step_norm = weight.norm().clamp(max=max_weight_norm), step.norm()
    trust = torch.where((weight_norm > 0) & (step_norm > 0), weight_norm / step_norm, 1.0)
    param.copy_(weight.sub_(step * (lr * trust)))


def rmsprop(
    param: Tensor,
    grad: Tensor,
    state: State,
    *,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    centered: bool,
    tf_variant: bool,
) -> None:
    """Steps in proportion to the gradient over the root of its mean square.

    Accl1 is the mean square, Accl2 the momentum, Accl3 the mean gradient if `centered`. TensorFlow's variant
    has `eps` inside the root and the learning rate inside the momentum.
    """
    weight = _float(param)
    grad = grad.float()
    grad = grad.add(weight, alpha=weight_decay) if weight_decay else grad
    square = _float(state["Accl1"]).mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
    state["Accl1"].copy_(square)
    if centered:
        mean = _float(state["Accl3"]).lerp_(grad, 1 - alpha)
        state["Accl3"].copy_(mean)
        square = square.addcmul(mean, mean, value=-1)
    root = square.add(eps).sqrt_() if tf_variant else square.sqrt().add_(eps)
    step = grad / root
    if momentum:
        step = _float(state["Accl2"]).mul_(momentum).add_(step, alpha=lr if tf_variant else 1.0)
        state["Accl2"].copy_(step)
    param.copy_(weight.add_(step, alpha=-1.0 if tf_variant and momentum else -lr))


def _float(tensor: Tensor) -> Tensor:
    """The tensor itself if it is float32, else a float32 copy."""
    return tensor if tensor.dtype == torch.float32 else tensor.float()


@torch.no_grad()
def on_host(
    optimizer: torch.optim.Optimizer,
    update: Callable[..., None],
    closure: Callable[[], float] | None,
    **settings: Any,
) -> float | None:
    """One step of an optimizer with betas on the host, by one of the functions above.

    `closure` computes the loss and the gradients anew, as in PyTorch.
    """
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = closure()
    for group in optimizer.param_groups:
        beta1, beta2 = group["betas"]
        for param in group["params"]:
            if param.grad is None:
                continue
            state = optimizer.state[param]
            if not state:
                moments = {name: torch.zeros_like(param, dtype=torch.float32) for name in ("Accl1", "Accl2")}
                state.update(moments, Step=torch.zeros(()))
            update(
                param,
                param.grad,
                state,
                lr=group["lr"],
                beta1=beta1,
                beta2=beta2,
                eps=group["eps"],
                weight_decay=group["weight_decay"],
                **settings,
            )
    return loss
