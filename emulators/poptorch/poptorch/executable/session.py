"""An executable with all it needs to run: weights on the device, random numbers, and what is recorded."""

import time
from functools import cached_property
from typing import Any

import torch

from poptorch import report
from poptorch.capture import ir
from poptorch.capture.program import TensorType
from poptorch.cost.deployment import Deployment
from poptorch.cost.execution import Execution
from poptorch.executable.anchors import Anchors
from poptorch.executable.compilation import Executable
from poptorch.executable.counters import PerfCounters
from poptorch.executable.device import Target
from poptorch.log import logger
from poptorch.machine import machine_of
from poptorch.memory_check import check_fits
from poptorch.options import Options
from poptorch.run import loop as run
from poptorch.run.batching import Batching
from poptorch.run.outputs import Collector
from poptorch.update.weight_update import WeightUpdate
from poptorch.weights.device_weights import DeviceWeights


class Session:
    """Runs an executable. `update` is the training model's, None in inference.

    `cycles` are the modelled cycles of the latest run, None before one or when they are not asked for.
    """

    def __init__(
        self,
        executable: Executable,
        weights: DeviceWeights,
        options: Options,
        batching: Batching,
        update: WeightUpdate | None,
    ):
        program = executable.program
        self.executable = executable
        self.weights = weights
        self.update = update
        self.target = Target(options)
        self.cycles: int | None = None
        self._options = options
        self._batching = batching
        recipe = None if update is None else update.recipe
        ir.show(program, options, recipe, weights.of_replica(0))
        self._fixed = run.fixed_arguments(program, weights, batching.replicas)
        self._random_numbers = run.RandomNumbers(options.random_seed)
        output_mode = options.output_mode, options.output_return_period
        self.anchors = Anchors(options.anchored_tensors, output_mode, program, update)
        outputs = sum(isinstance(leaf, TensorType) for leaf in program.output_leaves)
        self.counters = PerfCounters(len(program.inputs), outputs)
        folder = report.folder_of(options, update is not None)
        if folder is not None:
            # A program that is too large is compiled too: the report is what shows why.
            report.write(folder, self.execution)
        else:
            check_fits(self.execution)

    @cached_property
    def execution(self) -> Execution:
        """What the program costs on the machine: modelled."""
        recipe = None if self.update is None else self.update.recipe
        machine = machine_of(self.target.version)
        return Execution(self.executable.program, Deployment.of(self._options, machine, recipe))

    def run(self, inputs: list[torch.Tensor]) -> Any:
        """One call: all its micro-batches, and in training its weight updates."""
        if self._options.synthetic_data:
            inputs = [_synthetic(given) for given in inputs]
        collector = Collector(self._batching)
        if self.executable.program.uses_random_numbers:
            with self._random_numbers:
                results = self._run(inputs, collector)
        else:
            results = self._run(inputs, collector)
        self.anchors.finish()
        if not self._options.synthetic_data:
            self.counters.record(collector.begun, collector.ready, time.perf_counter())
        if self._options.log_cycle_count:
            self.cycles = self.execution.device_cycles
            logger.debug("Total number of IPU cycles: %d", self.cycles)
        return self.executable.program.outputs(results)

    def _run(self, inputs: list[torch.Tensor], collector: Collector) -> list[torch.Tensor]:
        program = self.anchors.program
        if self.update is None:
            return run.infer(program, self._fixed, inputs, self._batching, collector)
        return run.train(program, self._fixed, inputs, self._batching, collector, self.update)

    @property
    def random_state(self) -> list[int]:
        """The seed and the state of the random numbers."""
        self.log_random_numbers("Reading")
        return self._random_numbers.state

    @random_state.setter
    def random_state(self, state: list[int]) -> None:
        self._random_numbers.state = state
        self.log_random_numbers("Setting")

    def log_random_numbers(self, what: str) -> None:
        """Log that random numbers are read from or set on the device."""
        logger.debug(
            "%s random seed%s", what, "" if what == "Reading" else f" to {self._random_numbers.state[0]}"
        )
        logger.debug("%s RNG state", what)


def _synthetic(like: torch.Tensor) -> torch.Tensor:
    """What the device makes up in place of an input: normally distributed, or for whole numbers zeros."""
    return torch.randn_like(like) if like.is_floating_point() else torch.zeros_like(like)
