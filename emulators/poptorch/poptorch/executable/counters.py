"""When a run's inputs were taken and its outputs handed over: measured on this computer, in seconds."""

Latency = tuple[float, float, float]


class PerfCounters:
    """Time stamps of one run, for each micro-batch: when it was begun, and when its outputs were there.

    A run takes every micro-batch's inputs as it begins with it, and hands over all outputs at its end.
    """

    def __init__(self, inputs: int, outputs: int):
        self._inputs, self._outputs = inputs, outputs
        self._begun: list[float] = []
        self._ready: list[float] = []
        self._end = 0.0

    def record(self, begun: list[float], ready: list[float], end: float) -> None:
        """Replace the stamps by those of the latest run; `ready` has one for each kept result."""
        self._begun, self._ready, self._end = begun, ready, end

    def as_dict(self) -> dict[str, list[list[float]]]:
        """Stamps by event, each a list for every tensor with an entry for every micro-batch."""
        ended = [self._end] * len(self._ready)
        return {
            "input": [list(self._begun) for _ in range(self._inputs)],
            "input_complete": [list(self._begun) for _ in range(self._inputs)],
            "output": [list(self._ready) for _ in range(self._outputs)],
            "output_complete": [list(ended) for _ in range(self._outputs)],
        }

    def host_to_ipu(self) -> Latency:
        """From the first input asked for to the last input complete."""
        return _summary([0.0 for _ in self._begun])

    def compute(self) -> Latency:
        """From the last input complete to the outputs being ready."""
        return _summary(self._paired(self._ready))

    def ipu_to_host(self) -> Latency:
        """From the outputs being ready to their being handed over."""
        return _summary([self._end - ready for ready in self._ready])

    def round_trip(self) -> Latency:
        """From the first input asked for to the last output handed over."""
        return _summary(self._paired([self._end] * len(self._ready)))

    def _paired(self, later: list[float]) -> list[float]:
        """Durations to each kept result, from the micro-batch that it belongs to."""
        if not later:
            return []
        every = max(1, len(self._begun) // len(later))
        return [end - begun for end, begun in zip(later, self._begun[every - 1 :: every], strict=False)]


def _summary(durations: list[float]) -> Latency:
    """Shortest, longest and mean."""
    if not durations:
        return 0.0, 0.0, 0.0
    # The mean of equal durations may come out beyond them by a rounding error.
    mean = min(max(sum(durations) / len(durations), min(durations)), max(durations))
    return min(durations), max(durations), mean
