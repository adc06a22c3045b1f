"""Calls that leave the captured graph: host code in the middle of a model, and custom operations."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from poptorch.capture.source import current_source, located
from poptorch.ops import running_on_ipu, tracing

Function = Callable[[list[torch.Tensor]], list[torch.Tensor]]

# A node that calls a function by its number here; its results have the shapes and types noted beside it.
_library = torch.library.Library("poptorch_emulated", "FRAGMENT")
_library.define("host_call(Tensor[] inputs, int number, str name) -> Tensor[]")
_functions: list[tuple[Function, list[tuple[torch.Size, torch.dtype]]]] = []


def _host_call(inputs: list[torch.Tensor], number: int, _name: str) -> list[torch.Tensor]:
    function, results = _functions[number]
    if tracing() is not None:
        return [torch.empty(shape, dtype=dtype) for shape, dtype in results]
    return function(inputs)


_library.impl("host_call", _host_call, "CompositeImplicitAutograd")


def host_call(
    function: Function, inputs: list[torch.Tensor], examples: list[torch.Tensor], name: str
) -> list[torch.Tensor]:
    """Have `function` called with the values of `inputs` whenever the program runs.

    Its results must have the shapes and types of `examples`; `name` is for listings.
    """
    _functions.append((function, [(example.shape, example.dtype) for example in examples]))
    return torch.ops.poptorch_emulated.host_call(inputs, len(_functions) - 1, name)


@contextmanager
def _on_the_host() -> Iterator[None]:
    """Compute with real tensors although a model is being captured."""
    with running_on_ipu(None), _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield


class CPU:
    """A Python callable that the host runs in the middle of an inference model.

    `layer_to_call` takes and returns tensors; `ID` names it.
    """

    def __init__(self, layer_to_call: Callable, ID: str):
        self._layer_to_call = layer_to_call
        self._ID = ID
        self.inputs: list[torch.Tensor] = []
        self.outputs: list[torch.Tensor] = []
        self._single = False

    def execute(self) -> None:
        """Run the callable on the buffers, as the device asks it to."""
        with _on_the_host():
            results = self._layer_to_call(*self.inputs)
        self._single = isinstance(results, torch.Tensor)
        self.outputs = [results] if self._single else list(results)

    def registerPersistentData(self) -> None:
        """Make the host's buffers: run the callable once on inputs of zeros to learn what it returns."""
        with _on_the_host():
            self.inputs = [torch.zeros(tuple(x.shape), dtype=x.dtype) for x in self.inputs]
        self.execute()

    def __call__(self, *input: torch.Tensor, **kwargs: Any) -> Any:
        """Call the host with tensors; returns what the callable returns. Error in a training model.

        Keyword arguments are fixed when the model is captured.
        """
        state = tracing()
        if state is None:
            return self._layer_to_call(*input, **kwargs)
        if state.training:
            raise located(
                "poptorch.CPU is only supported in inference: the device can't go backward through the host. "
                "Do it before or after the training model, or write it with operations of the device.",
                current_source(),
            )
        called = CPU(lambda *values: self._layer_to_call(*values, **kwargs), self._ID)
        called.inputs = list(input)
        called.registerPersistentData()

        def run(values: list[torch.Tensor]) -> list[torch.Tensor]:
            called.inputs = list(values)
            called.execute()
            return called.outputs

        results = host_call(run, list(input), called.outputs, self._ID)
        return results[0] if called._single else tuple(results)
