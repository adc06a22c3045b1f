"""Custom operations: on the device compiled C++, here a callable registered in its place."""

import sys
from collections.abc import Callable
from typing import Any

import torch

from poptorch.capture.host_calls import host_call
from poptorch.capture.source import current_source, located

Attributes = dict[str, float | int | str | list | tuple]
# Takes the inputs and the attributes, and returns the outputs. What it does with tensors is differentiated.
Implementation = Callable[[list[torch.Tensor], Attributes], list[torch.Tensor]]

_implementations: dict[tuple[str, str, int], Implementation] = {}
_MOST_FLOAT32 = torch.finfo(torch.float32).max
_INT64 = (-(2**63), 2**63 - 1)

attributes_lists: list[Attributes] = []


def register_custom_op(
    name: str, domain: str, implementation: Implementation, domain_version: int = 1
) -> None:
    """Give the emulator what stands for a custom operation's C++; for the emulator only.

    `implementation(inputs, attributes)` returns the outputs. It can be Python, or a C++ operator loaded with
    `torch.ops.load_library`.
    """
    _implementations[domain, name, domain_version] = implementation


def custom_op(
    inputs: tuple[torch.Tensor, ...],
    name: str,
    domain: str,
    domain_version: int,
    example_outputs: tuple[torch.Tensor, ...],
    attributes: Attributes | None = None,
) -> list[torch.Tensor]:
    """Call a custom operation; its outputs have the shapes and types of `example_outputs`.

    ValueError for attributes that are not a number, a string, or a list of one kind of them; Error for
    numbers that don't fit in 32 bits (float) or 64 (int), and for an operation that is not registered.
    """
    attributes = dict(attributes or {})
    for attribute, value in attributes.items():
        _check_attribute(attribute, value)
    attributes_lists.append(attributes)
    implementation = _implementations.get((domain, name, domain_version))
    if implementation is None:
        raise located(
            f"The emulator has no custom operation {domain}.{name} version {domain_version}: it can't run "
            "compiled PopART operations. Register one that computes the same: "
            f"poptorch.register_custom_op({name!r}, {domain!r}, function).",
            current_source(),
        )
    return host_call(
        lambda values: list(implementation(values, attributes)),
        list(inputs),
        list(example_outputs),
        f"{domain}.{name}",
    )


def accessAttributes(attribute_id_str: str) -> Attributes:
    """Attributes of a custom operation by their place in `attributes_lists`, given as text."""
    return attributes_lists[int(attribute_id_str)]


def _check_attribute(name: str, value: Any) -> None:
    if not isinstance(name, str):
        raise ValueError(f"A custom operation's attributes are named by strings, but got {name!r}.")
    _check_ascii(name)
    values = value if isinstance(value, (list, tuple)) else [value]
    if not values:
        raise ValueError(f"The attribute {name} is an empty list; the type of its elements can't be told.")
    kinds = {type(element) for element in values}
    if len(kinds) != 1 or not kinds <= {int, float, str}:
        raise ValueError(
            f"The attribute {name} must be an int, a float, a string, or a list of one of these, but is "
            f"{value!r}."
        )
    for element in values:
        _check_element(element)


def _check_element(value: float | int | str) -> None:
    if isinstance(value, str):
        _check_ascii(value)
    elif isinstance(value, float):
        if abs(value) > _MOST_FLOAT32 and abs(value) <= sys.float_info.max:
            raise located(f"{value:g} is too {_side(value)} for a Popart float attribute.", current_source())
    elif not _INT64[0] <= value <= _INT64[1]:
        raise located(f"{value} is too {_side(value)} for a Popart int attribute.", current_source())


def _side(value: float) -> str:
    return "low" if value < 0 else "high"


def _check_ascii(text: str) -> None:
    if not text.isascii():
        raise ValueError(f"{text} contains non-ASCII characters.")
