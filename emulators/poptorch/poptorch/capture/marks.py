"""Operations that change no value but tell the compiler something: memory, recomputation, overlap, names."""

from typing import Any

import torch

from poptorch.capture import notes
from poptorch.enums import OverlapMode
from poptorch.ops import isRunningOnIpu

# Each is a node of its own in the captured graph; where it runs it hands its input on.
_library = torch.library.Library("poptorch_emulated", "FRAGMENT")
_MARKS = {
    "set_available_memory": "float proportion",
    "recomputation_checkpoint": "",
    "nop": "",
    "overlap_input": "str mode",
    "overlap_output": "str mode",
}
for _name, _argument in _MARKS.items():
    _arguments = ", ".join(filter(None, ["Tensor(a) x", _argument]))
    _library.define(f"{_name}({_arguments}) -> Tensor(a)")
    _library.impl(_name, lambda x, *_: x.view_as(x), "CompositeImplicitAutograd")


def _mark(name: str, tensor: torch.Tensor, *arguments: Any) -> torch.Tensor:
    if not isRunningOnIpu():
        return tensor
    return getattr(torch.ops.poptorch_emulated, name)(tensor, *arguments)


def set_available_memory(tensor: torch.Tensor, available_memory_proportion: float) -> torch.Tensor:
    """Let the operation that made `tensor` use this fraction of the tiles' memory for its temporaries.

    Meant for the results of convolutions, matrix products and gathers; the compiler's own choice is 0.6.
    ValueError for a fraction outside 0 to 1.
    """
    if not 0 < available_memory_proportion <= 1:
        raise ValueError(
            "set_available_memory takes a fraction of the tiles' memory between 0 and 1, but got "
            f"{available_memory_proportion}."
        )
    return _mark("set_available_memory", tensor, float(available_memory_proportion))


def nop(tensor: torch.Tensor) -> torch.Tensor:
    """`tensor` itself, by an operation that the compiler keeps."""
    return _mark("nop", tensor)


def recomputationCheckpoint(*tensors: Any) -> Any:
    """Keep these activations for the backward pass instead of computing them again.

    Takes tensors, or one list or tuple of them. Returns one tensor for one, otherwise a list or tuple like
    what was given. ValueError for anything else.
    """
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    if not given or not all(isinstance(tensor, torch.Tensor) for tensor in given):
        raise ValueError(
            f"recomputationCheckpoint takes tensors, or one list or tuple of them; got {tensors}."
        )
    kept = [_mark("recomputation_checkpoint", tensor) for tensor in given]
    return kept[0] if given is tensors and len(kept) == 1 else type(given)(kept)


def set_overlap_for_input(input_tensors: Any, mode: OverlapMode) -> Any:
    """Load inputs of the model while it computes. Takes a tensor, or a tuple, list or dict of them.

    Must be the only thing done to an input. AssertionError unless `mode` is an `OverlapMode`.
    """
    return _overlap("overlap_input", input_tensors, mode)


def set_overlap_for_output(output_tensors: Any, mode: OverlapMode) -> Any:
    """Store outputs of the model while it computes. Takes a tensor, or a tuple, list or dict of them.

    What it returns must be returned by `forward`, once. AssertionError unless `mode` is an `OverlapMode`.
    """
    return _overlap("overlap_output", output_tensors, mode)


def _overlap(name: str, tensors: Any, mode: OverlapMode) -> Any:
    assert isinstance(mode, OverlapMode), f"mode must be a poptorch.OverlapMode, but got {mode!r}."
    if isinstance(tensors, dict):
        return {key: _overlap(name, value, mode) for key, value in tensors.items()}
    if isinstance(tensors, (list, tuple)):
        return type(tensors)(_overlap(name, value, mode) for value in tensors)
    return _mark(name, tensors, mode.value)


class NameScope:
    """A `with` block whose operations have names that begin with `name/`."""

    def __init__(self, name: str):
        assert isinstance(name, str), f"A NameScope's name is a string, but got {name!r}."
        self._name = name

    def __enter__(self) -> "NameScope":
        self._outer = notes.noted("scope") or ()
        notes.note(scope=(*self._outer, self._name))
        return self

    def __exit__(self, *_: object) -> None:
        notes.note(scope=self._outer)


class Attribute:
    """A `with` block whose operations carry attributes: `Attribute(__outline={"layer": "embedding"})`."""

    def __init__(self, **kwargs: Any):
        assert kwargs, "Attribute needs attributes as keyword arguments; got none."
        self._attributes = kwargs

    def __enter__(self) -> "Attribute":
        self._outer = notes.noted("attributes") or {}
        notes.note(attributes={**self._outer, **self._attributes})
        return self

    def __exit__(self, *_: object) -> None:
        notes.note(attributes=self._outer)
