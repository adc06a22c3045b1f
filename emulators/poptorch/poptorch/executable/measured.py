"""What can be asked about a compiled model and its runs."""

from datetime import timedelta

import torch

from poptorch.capture import ir
from poptorch.cost.compilation import compilation_seconds
from poptorch.errors import Error
from poptorch.executable.anchors import tensor_names
from poptorch.executable.counters import Latency
from poptorch.executable.session import Session
from poptorch.options import Options


class Measured:
    """The part of a wrapped model that tells about it: names and values, times, cycles."""

    _options: Options
    # What runs, None before the model is compiled.
    _session: Session | None

    def _check_compiled(self) -> None:
        if self._session is None:
            raise Error("Model has not been compiled or has been destroyed. Call it or compile() it first.")

    @property
    def rng_state(self) -> list[int]:
        """The seed and the state of the device's random numbers. Error before compilation."""
        self._check_compiled()
        return self._session.random_state

    @rng_state.setter
    def rng_state(self, state: list[int]) -> None:
        self._check_compiled()
        self._session.random_state = state

    def getTensorNames(self) -> list[str]:
        """Names of all tensors of the compiled model. AssertionError before compilation."""
        assert self._session is not None, "Compile the model before asking for its tensors' names."
        return tensor_names(self._session.executable.program, self._session.update)

    def _debugGetPopartIR(self) -> str:
        """The compiled program as JSON in PopART's vocabulary."""
        self._check_compiled()
        update = self._session.update
        return ir.listing(
            self._session.executable.program, self._options, None if update is None else update.recipe
        )

    def getAnchoredTensor(self, short_name: str) -> torch.Tensor:
        """Value of an anchored tensor in the latest run. AssertionError for an unknown name."""
        assert self._session is not None, "Run the model before reading an anchored tensor."
        return self._session.anchors.value(short_name)

    def cycleCount(self) -> int:
        """Cycles of the latest run on one replica: modelled. Error unless enabled and run."""
        if not self._options.log_cycle_count:
            raise Error("Cycle count logging is disabled. Please set option logCycleCount to True to enable.")
        if self._session is None or self._session.cycles is None:
            raise Error("Please run the model at least once before obtaining cycle count.")
        return self._session.cycles

    def compilationTime(self) -> timedelta:
        """What compiling for the chip would take: modelled. Error unless compiled with a progress bar."""
        if self._session is None:
            raise Error("Please compile the model before obtaining compilation time.")
        if not self._options.show_compilation_progress_bar:
            raise Error("Please set showCompilationProgressBar option to obtain compilation time.")
        program, replicas = self._session.executable.program, self._options.replication_factor
        return timedelta(seconds=compilation_seconds(program, replicas))

    def getPerfCounters(self) -> dict[str, list[list[float]]]:
        """When inputs were taken and outputs handed over in the latest run: measured here, in seconds.

        The events are input, input_complete, output and output_complete; each has a list for every tensor
        with an entry for every micro-batch.
        """
        self._check_compiled()
        return self._session.counters.as_dict()

    def getHostIpuLatency(self) -> Latency:
        """(Shortest, longest, mean) from the first input asked for to the last input complete."""
        self._check_compiled()
        return self._session.counters.host_to_ipu()

    def getComputeLatency(self) -> Latency:
        """(Shortest, longest, mean) from the last input complete to the outputs being ready."""
        self._check_compiled()
        return self._session.counters.compute()

    def getIpuHostLatency(self) -> Latency:
        """(Shortest, longest, mean) from the outputs being ready to their being handed over."""
        self._check_compiled()
        return self._session.counters.ipu_to_host()

    def getLatency(self) -> Latency:
        """(Shortest, longest, mean) from the first input asked for to the last output handed over."""
        self._check_compiled()
        return self._session.counters.round_trip()
