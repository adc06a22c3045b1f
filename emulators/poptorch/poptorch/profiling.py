"""Trace points for PopVision System Analyser. Without its library, as here, they mark nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Channel:
    """A named row of trace points."""

    def __init__(self, name: str):
        self.name = name

    def instrument(self, obj: T, *methods: str) -> T:
        """Put trace points around the methods of an object; returns the object."""
        for method in methods:
            original = getattr(obj, method)

            def traced(*args, _original=original, _name=method, **kwargs):
                with self.tracepoint(_name):
                    return _original(*args, **kwargs)

            setattr(obj, method, traced)
        return obj

    @contextmanager
    def tracepoint(self, name: str) -> Iterator[None]:
        """Mark what happens inside the block."""
        yield
