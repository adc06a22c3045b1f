"""The weight update on the device: what the learner's optimizer describes, done to the device's weights."""

import logging
from dataclasses import dataclass
from typing import Any

import torch

from poptorch.enums import ReductionType
from poptorch.errors import Error
from poptorch.optim import VariableAttributes
from poptorch.options import Options
from poptorch.weights import DeviceWeights, HostWeights

logger = logging.getLogger("poptorch")

# AdamW before Adam: in PyTorch it is a subclass of it.
_KINDS = (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adam)
# What each kind's arithmetic depends on; other settings choose between implementations with the same result.
_ATTRIBUTES = {
    torch.optim.SGD: ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"),
    torch.optim.AdamW: ("lr", "betas", "eps", "weight_decay", "maximize"),
    torch.optim.Adam: ("lr", "betas", "eps", "weight_decay", "maximize"),
}


@dataclass(frozen=True)
class Recipe:
    """An optimizer's settings at one moment; later changes to the optimizer do not reach it.

    `groups` are (names of parameters, attributes); `variable` names the attributes that may differ in a later
    recipe.
    """

    kind: type[torch.optim.Optimizer]
    groups: tuple[tuple[tuple[str, ...], dict[str, Any]], ...]
    variable: frozenset[str]
    loss_scaling: float
    max_grad_norm: float

    @classmethod
    def of(cls, optimizer: torch.optim.Optimizer, host: HostWeights) -> "Recipe":
        """Read an optimizer: AssertionError for a kind the device lacks, ValueError for amsgrad."""
        kind = _kind_of(optimizer)
        names = {id(tensor): names[0] for names, tensor in host.parameters()}
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
            groups.append((members, {name: _number(group[name]) for name in _ATTRIBUTES[kind]}))
        return cls(
            kind,
            tuple(groups),
            _variable_attributes(optimizer, kind),
            getattr(optimizer, "loss_scaling", 1.0),
            getattr(optimizer, "max_grad_norm", float("inf")),
        )


def _kind_of(optimizer: torch.optim.Optimizer) -> type[torch.optim.Optimizer]:
    for kind in _KINDS:
        if isinstance(optimizer, kind):
            if type(optimizer).__module__.split(".")[0] not in ("torch", "poptorch"):
                logger.warning(
                    "%s is a subclass of %s; its own step() never runs: the device does %s's update.",
                    type(optimizer).__name__,
                    kind.__name__,
                    kind.__name__,
                )
            return kind
    names = ", ".join(kind.__name__ for kind in _KINDS)
    raise AssertionError(f"The device has no {type(optimizer).__name__} optimizer; it has {names}.")


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, torch.Tensor) else value


def _variable_attributes(
    optimizer: torch.optim.Optimizer, kind: type[torch.optim.Optimizer]
) -> frozenset[str]:
    attributes: VariableAttributes | None = getattr(optimizer, "variable_attrs", None)
    names = (*_ATTRIBUTES[kind], "loss_scaling", "max_grad_norm")
    if attributes is not None:
        return frozenset(
            name for name in names if name in attributes._allowed and not attributes.isConstant(name)
        )
    # One of PyTorch's own: what was left at its default is taken for something that will not change.
    defaults = kind([torch.nn.Parameter(torch.zeros(()))]).defaults
    changed = {n for n in _ATTRIBUTES[kind] if any(g[n] != defaults[n] for g in optimizer.param_groups)}
    return frozenset(changed | {"lr"})


class WeightUpdate:
    """Gradients to weights, once per device iteration."""

    def __init__(self, recipe: Recipe, weights: DeviceWeights, options: Options):
        self._recipe = recipe
        mean = options.Training.accumulation_and_replication_reduction_type == ReductionType.Mean
        micro_batches = options.Training.gradient_accumulation * options.replication_factor
        self._reduction = 1 / micro_batches if mean else 1.0
        self._parameters = [weights.parameters[name] for names, _ in recipe.groups for name in names]
        updated = set(map(id, self._parameters))
        for parameter in weights.parameters.values():
            if id(parameter) not in updated:
                parameter.requires_grad_(False)
        groups = [
            {"params": [weights.parameters[n] for n in names], **values} for names, values in recipe.groups
        ]
        self._optimizer = recipe.kind(groups, fused=True)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of a micro-batch's loss, times the loss scaling, to what has accumulated.

        Every element of a loss that is not a scalar counts with weight one.
        """
        if not loss.requires_grad:
            return
        scaling = self._recipe.loss_scaling
        if loss.dim() == 0 and scaling == 1.0:
            loss.backward()
        else:
            loss.backward(torch.full_like(loss, scaling))

    def step(self) -> None:
        """Reduce the accumulated gradients, update the weights, and start accumulating anew."""
        factor = self._reduction / self._recipe.loss_scaling
        if factor != 1.0:
            gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
            torch._foreach_mul_(gradients, factor)
        if self._recipe.max_grad_norm != float("inf"):
            torch.nn.utils.clip_grad_norm_(
                self._parameters, self._recipe.max_grad_norm, error_if_nonfinite=True
            )
        self._optimizer.step()
        self._optimizer.zero_grad()

    def change(self, recipe: Recipe) -> None:
        """Go on with other settings, keeping momenta; Error where they differ in something compiled in."""
        self._check_constants(recipe)
        for group, (_, values) in zip(self._optimizer.param_groups, recipe.groups, strict=True):
            group.update(values)
        self._recipe = recipe

    def _check_constants(self, recipe: Recipe) -> None:
        old = self._recipe
        same_groups = [names for names, _ in recipe.groups] == [names for names, _ in old.groups]
        if recipe.kind is not old.kind or not same_groups:
            raise Error(
                f"The model was compiled for {old.kind.__name__} with {len(old.groups)} parameter group(s); "
                "another kind of optimizer or other groups need another program. Call destroy() and wrap "
                "the model again."
            )
        for before, after in zip(old.groups, recipe.groups, strict=True):
            pairs = {name: (before[1][name], after[1][name]) for name in before[1]}
            pairs["loss_scaling"] = (old.loss_scaling, recipe.loss_scaling)
            pairs["max_grad_norm"] = (old.max_grad_norm, recipe.max_grad_norm)
            for name, (was, is_now) in pairs.items():
                if was != is_now and name not in old.variable:
                    raise Error(
                        f"The optimizer's {name} is a constant of the compiled program, {was}, and can't "
                        f"become {is_now}. Give {name} explicitly to a poptorch.optim optimizer, or call "
                        f"variable_attrs.markAsVariable({name!r}), before the model is compiled."
                    )
