"""Plain values as text: what an observation may hold, and how it leaves the kernel that made it.

JSON, with one-key objects for what JSON hasn't: ``{"tensor": [dtype, shape, base64]}``, ``{"array": ...}``
likewise, ``{"float": "nan"}``, ``{"dict": [[key, value], ...]}``, and ``{"other": "package.Class"}`` for all
else. Reading builds numbers, texts, lists, dicts, tensors and arrays, and never an object of a class that the
text names.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from dataclasses import dataclass
from typing import Any

MAX_CHARACTERS = 4_000_000
MAX_DEPTH = 8
MAX_ITEMS = 100_000

_TENSORS = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")


class Malformed(ValueError):
    """A text that holds no plain value, or a value beyond the limits of this module."""


@dataclass(frozen=True)
class Other:
    """Stands for an object that isn't plain: only the name of its class is known."""

    kind: str

    def __repr__(self) -> str:
        return f"a {self.kind}"


def dump(value: Any) -> str:
    """A value as text.

    Raises:
        Malformed: the value is larger or deeper than the limits allow.
    """
    text = json.dumps(_Writer().write(value, 0), separators=(",", ":"))
    if len(text) > MAX_CHARACTERS:
        raise Malformed(f"{len(text)} characters of values; at most {MAX_CHARACTERS} are looked at")
    return text


def load(text: str) -> Any:
    """The value of a text that `dump` wrote, or anybody else.

    Raises:
        Malformed: it holds no plain value, or one beyond the limits.
    """
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        raise Malformed("no text, or a longer one than is looked at")
    try:
        return _Reader().read(json.loads(text), 0)
    except Malformed:
        raise
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise Malformed(f"not a plain value: {type(error).__name__}") from None


class _Counted:
    """Counts what it passes, so that neither side builds more than the limits allow."""

    items = 0

    def count(self, depth: int) -> None:
        self.items += 1
        if self.items > MAX_ITEMS:
            raise Malformed(f"more than {MAX_ITEMS} values; return fewer of them")
        if depth > MAX_DEPTH:
            raise Malformed(f"values nested deeper than {MAX_DEPTH}")


class _Writer(_Counted):
    def write(self, value: Any, depth: int) -> Any:
        self.count(depth)
        if value is None or value is True or value is False:
            return value
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, int):
            return int.__index__(value)
        if isinstance(value, float):
            number = float.__float__(value)
            return number if math.isfinite(number) else {"float": repr(number)}
        if isinstance(value, (list, tuple)):
            return [self.write(item, depth + 1) for item in value]
        if isinstance(value, dict):
            pairs = [(self.write(key, depth + 1), self.write(item, depth + 1)) for key, item in value.items()]
            return {"dict": pairs}
        return self.write_block(value)

    def write_block(self, value: Any) -> Any:
        # A value can be a tensor only where somebody has imported torch.
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and isinstance(value, torch.Tensor) and value.layout is torch.strided:
            plain = value.detach().to("cpu").as_subclass(torch.Tensor).contiguous()
            dtype = str(plain.dtype).replace("torch.", "")
            if dtype in _TENSORS:
                return {"tensor": self.block(dtype, plain.resolve_conj().resolve_neg().numpy())}
        if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype.name in _TENSORS:
            return {"array": self.block(value.dtype.name, value)}
        return {"other": f"{type(value).__module__}.{type(value).__qualname__}"[:200]}

    @staticmethod
    def block(dtype: str, array: Any) -> list[Any]:
        if array.nbytes > MAX_CHARACTERS:
            raise Malformed(f"a tensor of {array.nbytes} bytes; at most {MAX_CHARACTERS} are looked at")
        return [dtype, list(array.shape), base64.b64encode(array.tobytes()).decode("ascii")]


class _Reader(_Counted):
    def read(self, value: Any, depth: int) -> Any:
        self.count(depth)
        if isinstance(value, list):
            return [self.read(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        return getattr(self, f"read_{kind}" if kind in _KINDS else "refuse")(content, depth)

    def refuse(self, content: Any, depth: int) -> Any:
        raise Malformed("an object of no known kind")

    def read_float(self, content: Any, depth: int) -> float:
        if content not in ("nan", "inf", "-inf"):
            raise Malformed("a float that is none")
        return float(content)

    def read_dict(self, content: Any, depth: int) -> dict[Any, Any]:
        return {self.read(key, depth + 1): self.read(item, depth + 1) for key, item in content}

    def read_other(self, content: Any, depth: int) -> Other:
        if not isinstance(content, str):
            raise Malformed("a class without a name")
        return Other(content[:200])

    def read_array(self, content: Any, depth: int) -> Any:
        import numpy

        dtype, shape, data = content
        if dtype not in _TENSORS or not all(type(side) is int and side >= 0 for side in shape):
            raise Malformed("an array of no known type or shape")
        return numpy.frombuffer(base64.b64decode(data, validate=True), dtype=dtype).reshape(shape).copy()

    def read_tensor(self, content: Any, depth: int) -> Any:
        import torch

        return torch.from_numpy(self.read_array(content, depth))


_KINDS = ("float", "dict", "other", "array", "tensor")
