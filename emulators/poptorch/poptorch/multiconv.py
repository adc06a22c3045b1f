"""Independent convolutions that the device does together."""

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from poptorch.capture import notes
from poptorch.capture.source import current_source, located
from poptorch.enums import MultiConvPlanType
from poptorch.errors import Error
from poptorch.ops import isRunningOnIpu

CONVOLUTIONS = frozenset(
    f"conv{transpose}{dimensions}d" for transpose in ("", "_transpose") for dimensions in (1, 2, 3)
)


class MultiConv:
    """A `with` block whose convolutions are done together; they must not depend on each other.

    Settings apply to all of them, or with a list to each in turn.
    """

    def __init__(self):
        self.settings: dict[str, Any] = {}

    def availableMemoryProportions(self, value: float | list[float]) -> "MultiConv":
        """Set the fraction of the tiles' memory each convolution may use. AssertionError unless numbers."""
        _each(value, (float, int), "Invalid memory proportions")
        return self._with("available_memory_proportions", value)

    def partialsTypes(self, value: torch.dtype | list[torch.dtype]) -> "MultiConv":
        """Set the type partial sums have: torch.float or torch.half; else a ValueError."""
        for dtype in value if isinstance(value, (list, tuple)) else [value]:
            if dtype not in (torch.float32, torch.float16):
                raise ValueError(f"Invalid partials types: {value!r}. They can be torch.float or torch.half.")
        return self._with("partials_types", value)

    def enableConvDithering(self, value: bool | list[bool]) -> "MultiConv":
        """Set whether convolutions start on different tiles. AssertionError unless bools."""
        _each(value, bool, "Invalid dithering")
        return self._with("convolution_dithering", value)

    def planType(self, value: MultiConvPlanType) -> "MultiConv":
        """Set whether the convolutions run side by side or in turn; AssertionError for another type."""
        assert isinstance(value, MultiConvPlanType), (
            f"Invalid plan type: {value!r}. It must be a poptorch.MultiConvPlanType."
        )
        return self._with("plan_type", value)

    def perConvReservedTiles(self, value: int) -> "MultiConv":
        """Set how many tiles are kept for each convolution. AssertionError unless an int."""
        assert isinstance(value, int), f"Invalid number of reserved tiles: {value!r}. It must be an int."
        return self._with("per_conv_reserved_tiles", value)

    def cycleBackOff(self, value: float) -> "MultiConv":
        """Set how much slower than the fastest a plan may be. AssertionError unless a number."""
        assert isinstance(value, (int, float)), f"Invalid cycle back-off: {value!r}. It must be a number."
        return self._with("cycle_back_off", value)

    def _with(self, name: str, value: Any) -> "MultiConv":
        self.settings[name] = value
        return self

    def __enter__(self) -> "MultiConv":
        if isRunningOnIpu():
            if notes.noted("multi_conv") is not None:
                raise Error("Nested poptorch.MultiConv is not supported: end one before the next begins.")
            self._counting = _Counting()
            self._counting.__enter__()
            notes.note(multi_conv=self.settings)
        return self

    def __exit__(self, kind: type | None, *details: object) -> None:
        if isRunningOnIpu():
            notes.note(multi_conv=None)
            self._counting.__exit__(kind, *details)
            if kind is None:
                self._check(self._counting.seen)

    def _check(self, convolutions: int) -> None:
        if convolutions == 0:
            raise located(
                "Unexpected end_multi_conv: a poptorch.MultiConv block ended without any convolution in "
                "it. Put the convolutions to do together into it, or remove it.",
                current_source(),
            )
        for name, value in self.settings.items():
            if isinstance(value, (list, tuple)) and len(value) != convolutions:
                raise located(
                    f"The poptorch.MultiConv block has {convolutions} convolution(s), but {name} lists "
                    f"{len(value)} values. Give one value for all, or one for each.",
                    current_source(),
                )


class _Counting(TorchFunctionMode):
    """Counts convolutions as they are called."""

    def __init__(self):
        super().__init__()
        self.seen = 0

    def __torch_function__(
        self, function: Callable, types: tuple, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Do one call and count it if it is a convolution."""
        self.seen += getattr(function, "__name__", "") in CONVOLUTIONS
        return function(*args, **(kwargs or {}))


def _each(value: Any, kinds: type | tuple[type, ...], message: str) -> None:
    values = value if isinstance(value, (list, tuple)) else [value]
    assert all(isinstance(element, kinds) for element in values), f"{message}: {value!r}."
