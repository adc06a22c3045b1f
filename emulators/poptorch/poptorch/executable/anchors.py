"""Tensors inside a model, by name: what `getTensorNames` lists and `anchorTensor` makes readable."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from poptorch.capture.program import Operation, Program
from poptorch.enums import OutputMode
from poptorch.errors import Error
from poptorch.log import logger
from poptorch.update.weight_update import WeightUpdate

_GRADIENT, _UPDATED, _FINAL_LOSS_SCALE = "Gradient___", "UpdatedVar___", "finalLossScale"


def operation_tensor(operation: Operation) -> str:
    """Name of an operation's result: the modules that called it and the operation, `layer/0/conv2d`.

    PyTorch makes operations' names unique by a number at the end.
    """
    return "/".join([*filter(None, operation.module.split(".")), operation.name])


def tensor_names(program: Program, update: WeightUpdate | None) -> list[str]:
    """All names: inputs, weights, results of operations and, in training, what the update adds."""
    names = [*program.inputs, *program.weight_names, *map(operation_tensor, program.operations)]
    if update is not None:
        names.append(f"loss/{program.loss}")
        names += [_GRADIENT + name for name in update.names]
        names += [_UPDATED + name for name in update.names]
        for part in update.state().values():
            names += part
        names.append(_FINAL_LOSS_SCALE)
    return list(dict.fromkeys(names))


class Anchors:
    """Records anchored tensors while a model runs, and keeps what their output modes ask for.

    `anchored` is short name -> (long name, output mode, period). Error for a name that the model does not
    have. Values of several micro-batches are stacked along a new dimension 0.
    """

    def __init__(
        self,
        anchored: dict[str, tuple[str, OutputMode, int]],
        default: tuple[OutputMode, int],
        program: Program,
        update: WeightUpdate | None,
    ):
        known = set(tensor_names(program, update))
        self._anchored = {}
        for short, (long_name, mode, period) in anchored.items():
            if long_name not in known:
                raise Error(
                    f"There is no tensor {long_name!r} to anchor as {short!r}; getTensorNames() of the "
                    "compiled model lists the names there are."
                )
            mode, period = default if mode == OutputMode.Default else (mode, period)
            self._anchored[short] = long_name, mode, period
            shown = "Sum" if mode == OutputMode.Sum else mode.name.upper()
            logger.debug("Anchored %s: %s %s/%d", short, long_name, shown, period)
        self._recorded: dict[str, list[torch.Tensor]] = {}
        self._values: dict[str, torch.Tensor] = {}
        self._program = self._with_results(program)
        self._update = update
        if update is not None and self._anchored:
            update.observe(self._after_update)
            self._watch_gradients(update)

    @property
    def program(self) -> Program:
        """The program to run, which records as it goes."""
        return self._program

    def value(self, short_name: str) -> torch.Tensor:
        """What was recorded in the latest run. AssertionError for an unknown name or before a run."""
        assert short_name in self._anchored, (
            f"No tensor is anchored as {short_name!r}; there are {', '.join(self._anchored) or 'none'}. "
            "Options.anchorTensor names them before the model is wrapped."
        )
        assert short_name in self._values, "Run the model before reading an anchored tensor."
        return self._values[short_name]

    def finish(self) -> None:
        """Turn what one run has recorded into values."""
        for short, (long_name, mode, period) in self._anchored.items():
            recorded = self._recorded.get(long_name)
            if recorded:
                self._values[short] = _kept(recorded, mode, period)
        self._recorded = {}

    def _record(self, name: str, value: torch.Tensor) -> None:
        self._recorded.setdefault(name, []).append(value.detach().clone())

    def _wanted(self) -> set[str]:
        return {long_name for long_name, _, _ in self._anchored.values()}

    def _watch_gradients(self, update: WeightUpdate) -> None:
        for name, parameter in update.parameters():
            if _GRADIENT + name in self._wanted():
                parameter.register_hook(lambda gradient, name=name: self._record(_GRADIENT + name, gradient))

    def _after_update(self, update: WeightUpdate) -> None:
        wanted = self._wanted()
        for name, parameter in update.parameters():
            if _UPDATED + name in wanted:
                self._record(_UPDATED + name, parameter)
        for part in update.state().values():
            for name in wanted.intersection(part):
                self._record(name, part[name])
        if _FINAL_LOSS_SCALE in wanted:
            self._record(_FINAL_LOSS_SCALE, torch.tensor(update.final_loss_scale))

    def _with_results(self, program: Program) -> Program:
        """The program, recording the anchored inputs, weights and results of operations."""
        wanted = self._wanted()
        nodes = {operation_tensor(operation): operation.name for operation in program.operations}
        nodes[f"loss/{program.loss}"] = program.loss
        nodes |= {name: name for name in program.inputs}
        chosen = {nodes[name]: name for name in wanted & nodes.keys()}
        arguments = [*program.weight_names, *(None for _ in program.constants)]
        weights = {index: name for index, name in enumerate(arguments) if name in wanted}
        if not chosen and not weights:
            return program
        return dataclasses.replace(program, run=self._recording(program.run, chosen, weights))

    def _recording(
        self, run: Callable[..., tuple], chosen: dict[str, str], weights: dict[int, str]
    ) -> Callable[..., tuple]:
        graph = fx.Graph()
        original = run.__self__.graph
        copies: dict[fx.Node, fx.Node] = {}
        results = graph.graph_copy(original, copies)
        extra = [(name, copies[node]) for node in original.nodes for name in [chosen.get(node.name)] if name]
        graph.output((*results, *(node for _, node in extra)))
        extended = fx.GraphModule(run.__self__, graph)

        def recorded(*arguments: Any) -> tuple:
            for index, name in weights.items():
                self._record(name, arguments[index])
            values = extended(*arguments)
            for (name, _), value in zip(extra, values[len(results) :], strict=True):
                self._record(name, value)
            return values[: len(results)]

        return recorded


def _kept(values: list[torch.Tensor], mode: OutputMode, period: int) -> torch.Tensor:
    if mode == OutputMode.Final:
        return values[-1]
    if mode == OutputMode.Sum:
        return torch.stack(values).sum(0)
    kept = values[period - 1 :: period] if mode == OutputMode.EveryN else values
    return torch.stack(kept) if len(kept) > 1 else values[-1]
