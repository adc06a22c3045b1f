"""The weight update on the device: what the learner's optimizer describes, done to the device's weights."""

from collections.abc import Callable
from typing import Any

import torch

from poptorch.errors import Error
from poptorch.optim import LAMB
from poptorch.options import Options
from poptorch.run.rounding import stochastic
from poptorch.update import steps
from poptorch.update.accumulators import Accumulators
from poptorch.update.loss_scaling import LossScale
from poptorch.update.recipe import Recipe
from poptorch.update.settings import Settings
from poptorch.weights.host_weights import DeviceWeights

_FUSED = (torch.optim.Adam, torch.optim.AdamW)


class WeightUpdate:
    """Gradients to weights, once per device iteration.

    Weights of which groups of replicas have copies of their own appear once for each group.
    """

    def __init__(self, recipe: Recipe, weights: DeviceWeights, options: Options):
        self._weights = weights
        self._parameters: list[torch.nn.Parameter] = []
        self._names: list[str] = []
        for names, _ in recipe.groups:
            for name in names:
                copies = weights.copies[name]
                self._parameters += copies
                self._names += [name] * len(copies)
        weights.freeze_all_but(self._parameters)
        self._accumulators = Accumulators(self._parameters, options, recipe.device["accum_type"])
        self._loss_scale = LossScale(options.Training.auto_loss_scaling)
        self._recipe = recipe
        self._settings = Settings(recipe)
        self._state = [self._initial_state(parameter) for parameter in self._parameters]
        self._observers: list[Callable[[WeightUpdate], None]] = []
        self._rounds_at_random = options.Precision.stochastic_rounding
        recipe.log()

    @property
    def recipe(self) -> Recipe:
        """The settings the device works with."""
        return self._recipe

    @property
    def names(self) -> list[str]:
        """Names of the parameters that are updated."""
        return list(dict.fromkeys(self._names))

    def parameters(self) -> list[tuple[str, torch.nn.Parameter]]:
        """Each parameter with its name, once for each group of replicas that has its own."""
        return list(zip(self._names, self._parameters, strict=True))

    @property
    def final_loss_scale(self) -> float:
        """What the loss was multiplied with in the latest update."""
        return self._settings.loss_scaling * self._loss_scale.last_used

    def observe(self, observer: Callable[["WeightUpdate"], None]) -> None:
        """Have `observer` called after every update."""
        self._observers.append(observer)

    def _initial_state(self, parameter: torch.nn.Parameter) -> steps.State:
        device = self._recipe.device
        first = device["first_order_momentum_accum_type"]
        second = device["second_order_momentum_accum_type"]
        types: dict[str, torch.dtype] = {}
        if self._recipe.kind is torch.optim.SGD:
            if self._recipe.kind_name != "SGD0":
                types = {"Accl1": device["velocity_accum_type"]}
        elif self._recipe.kind is torch.optim.RMSprop:
            types = {"Accl1": first}
            if self._recipe.has_momentum:
                types["Accl2"] = second
            if self._recipe.is_centered:
                types["Accl3"] = first
        else:
            types = {"Accl1": first, "Accl2": second}
        state = {name: torch.zeros(parameter.shape, dtype=dtype) for name, dtype in types.items()}
        if types and self._recipe.kind is not torch.optim.RMSprop:
            state["Step"] = torch.zeros(())
        return state

    # --- One device iteration

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of a micro-batch's loss, times the loss scaling, to what has accumulated.

        Every element of a loss that is not a scalar counts with weight one.
        """
        if not loss.requires_grad:
            return
        scaling = self._settings.loss_scaling * self._loss_scale.factor
        if loss.dim() == 0 and scaling == 1.0:
            loss.backward()
        else:
            loss.backward(torch.full_like(loss, scaling))
        self._accumulators.take()

    @torch.no_grad()
    def step(self) -> None:
        """Reduce the accumulated gradients, update the weights, and start accumulating anew."""
        accumulated = self._accumulators.gradients()
        used = [index for index, gradient in enumerate(accumulated) if gradient is not None]
        gradients = [accumulated[index] for index in used]
        self._accumulators.reduce(gradients)
        self._loss_scale.unscale(gradients)
        self._clip(gradients)
        if self._rounds_at_random:
            self._apply_rounding_at_random(used, gradients)
        else:
            self._apply(used, gradients)
        self._accumulators.clear()
        self._loss_scale.adapt()
        for observer in self._observers:
            observer(self)

    def _clip(self, gradients: list[torch.Tensor]) -> None:
        bound = self._recipe.device["max_grad_norm"]
        if bound == float("inf") or not gradients:
            return
        norm = torch.nn.utils.get_total_norm(gradients, error_if_nonfinite=True)
        factor = bound * self._settings.loss_scaling / (norm + 1e-6)
        if factor < 1:
            torch._foreach_mul_(gradients, factor)

    def _apply(self, used: list[int], gradients: list[torch.Tensor]) -> None:
        """Update weights, as many at once as share their settings where the arithmetic allows it."""
        batches: dict[tuple, tuple[list[int], list[torch.Tensor]]] = {}
        for index, gradient in zip(used, gradients, strict=True):
            key = self._settings.key(self._names[index])
            members = batches.setdefault(key, ([], []))
            members[0].append(index)
            members[1].append(gradient)
        for members, their_gradients in batches.values():
            self._apply_alike(members, their_gradients)

    def _apply_rounding_at_random(self, used: list[int], gradients: list[torch.Tensor]) -> None:
        """Update in float32, and round float16 weights at random: small updates then count on average."""
        own, wide = self._parameters, [parameter.float() for parameter in self._parameters]
        self._parameters = wide
        self._apply(used, gradients)
        self._parameters = own
        for index in used:
            if own[index].dtype == torch.float16:
                own[index].copy_(stochastic(wide[index]))

    def _apply_alike(self, members: list[int], gradients: list[torch.Tensor]) -> None:
        parameters = [self._parameters[index] for index in members]
        values = self._settings.of(self._names[members[0]])
        kind = self._recipe.kind
        if kind is torch.optim.SGD:
            self._apply_sgd(members, gradients, values)
            return
        scaling = self._settings.loss_scaling
        if scaling != 1.0:
            gradients = [gradient.float() / scaling for gradient in gradients]
        if values["maximize"]:
            gradients = torch._foreach_neg(gradients)
        states = [self._state[index] for index in members]
        if kind in _FUSED and self._can_fuse(parameters, gradients, states):
            arguments = {name: values[name] for name in ("lr", "beta1", "beta2", "eps", "weight_decay")}
            steps.adam_fused(parameters, gradients, states, kind is torch.optim.AdamW, **arguments)
            return
        for parameter, gradient, state in zip(parameters, gradients, states, strict=True):
            self._apply_one(parameter, gradient, state, values)

    def _can_fuse(self, *tensors: list[Any]) -> bool:
        parameters, gradients, states = tensors
        moments = [state[name] for state in states for name in ("Accl1", "Accl2")]
        alike = all(tensor.dtype == torch.float32 for tensor in [*parameters, *gradients, *moments])
        return alike and self._recipe.device["bias_correction"]

    def _apply_one(
        self,
        parameter: torch.nn.Parameter,
        gradient: torch.Tensor,
        state: steps.State,
        values: dict[str, Any],
    ) -> None:
        device, kind = self._recipe.device, self._recipe.kind
        names = ("lr", "eps", "weight_decay")
        shared = {name: values[name] for name in names}
        if kind is torch.optim.RMSprop:
            own = {name: values[name] for name in ("alpha", "momentum", "centered")}
            steps.rmsprop(parameter, gradient, state, tf_variant=device["use_tf_variant"], **shared, **own)
            return
        shared |= {"beta1": values["beta1"], "beta2": values["beta2"]}
        shared["bias_correction"] = device["bias_correction"]
        if kind is LAMB:
            steps.lamb(parameter, gradient, state, max_weight_norm=values["max_weight_norm"], **shared)
        elif kind is torch.optim.AdamW:
            steps.adamw(parameter, gradient, state, **shared)
        else:
            steps.adam(parameter, gradient, state, **shared)

    def _apply_sgd(self, members: list[int], gradients: list[torch.Tensor], values: dict[str, Any]) -> None:
        parameters = [self._parameters[index] for index in members]
        if values["maximize"]:
            gradients = torch._foreach_neg(gradients)
        if self._recipe.kind_name == "SGD0":
            steps.sgd(parameters, gradients, values["rate"], values["keep"])
            return
        arguments = {name: values[name] for name in ("rate", "momentum", "grad_factor", "decay")}
        states = [self._state[index] for index in members]
        begun = all(int(state["Step"]) > 0 for state in states)
        if begun and values["grad_factor"] and not values["nesterov"]:
            moments = [state["Accl1"] for state in states]
            if all(tensor.dtype == torch.float32 for tensor in [*parameters, *gradients, *moments]):
                steps.sgd_fused(parameters, gradients, states, **arguments)
                return
        arguments |= {name: values[name] for name in ("nesterov", "first_factor")}
        for index, parameter, gradient in zip(members, parameters, gradients, strict=True):
            steps.sgd_with_momentum(parameter, gradient, self._state[index], **arguments)

    # --- Settings and state from outside

    def change(self, recipe: Recipe) -> None:
        """Go on with other settings, keeping momenta; Error where they differ in something compiled in."""
        if recipe == self._recipe:
            return
        _check_constants(self._recipe, recipe)
        recipe.log(self._recipe)
        self._recipe = recipe
        self._settings = Settings(recipe)

    def state(self) -> dict[str, dict[str, torch.Tensor]]:
        """What the device keeps: "ipu_state", the momenta, and "ipu_param", the variable settings."""
        columns: dict[str, list[torch.Tensor]] = {}
        for name, state in zip(self._names, self._state, strict=True):
            for prefix, tensor in state.items():
                columns.setdefault(f"{prefix}___{name}", []).append(tensor)
        ipu_state = {
            name: torch.stack(copies) if len(copies) > 1 else copies[0].clone()
            for name, copies in columns.items()
        }
        return {"ipu_state": ipu_state | self._loss_scale.state(), "ipu_param": self._settings.variable()}

    def load(self, state: dict[str, dict[str, torch.Tensor]]) -> None:
        """Take over momenta and settings by name; those that are not given stay as they are."""
        seen: dict[str, int] = {}
        for name, own in zip(self._names, self._state, strict=True):
            copy = seen.get(name, 0)
            seen[name] = copy + 1
            for prefix, tensor in own.items():
                given = state["ipu_state"].get(f"{prefix}___{name}")
                if given is not None:
                    tensor.copy_(given[copy] if given.dim() > tensor.dim() else given)
        self._loss_scale.load(state["ipu_state"])
        self._settings.load(state["ipu_param"])


def _check_constants(old: Recipe, new: Recipe) -> None:
    same_groups = [names for names, _ in new.groups] == [names for names, _ in old.groups]
    if new.kind is not old.kind or not same_groups:
        raise Error(
            f"The model was compiled for {old.kind.__name__} with {len(old.groups)} parameter group(s); "
            "another kind of optimizer or other groups need another program. Call destroy() and wrap "
            "the model again."
        )
    pairs = [(old.device, new.device)]
    pairs += [(before, after) for (_, before), (_, after) in zip(old.groups, new.groups, strict=True)]
    for before, after in pairs:
        for name, was in before.items():
            is_now = after.get(name, was)
            if was != is_now and name not in old.variable:
                raise Error(
                    f"The optimizer's {name} is a constant of the compiled program, {was}, and can't "
                    f"become {is_now}. Give {name} explicitly to a poptorch.optim optimizer, or call "
                    f"variable_attrs.markAsVariable({name!r}), before the model is compiled."
                )
