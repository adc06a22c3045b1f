"""Canaries: three cells with an answer known in advance, run after a submission's last cell.

Marks don't rest on them, since the judge gives those. A kernel that answers them wrongly has been tampered
with, so what else it said deserves a person's eye before the marks count.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from nbformat import NotebookNode

_random = random.SystemRandom()


@dataclass(frozen=True)
class Canary:
    """One cell, whether its outputs are what they must be, and what is said when they aren't."""

    source: str
    sings: Callable[[list[NotebookNode]], bool]
    reason: str


def canaries() -> list[Canary]:
    """Fresh canaries, with numbers that no submission can know."""
    a, b, token = _random.randrange(10**6), _random.randrange(10**6), f"{_random.getrandbits(64):x}"
    return [
        Canary(
            f"assert {a} + {b} == {a + b + 1}, {token!r}",
            lambda outputs: any(
                output.output_type == "error" and output.ename == "AssertionError" and token in output.evalue
                for output in outputs
            ),
            "a false assertion raised no error",
        ),
        Canary(
            f"{a} * {b}",
            lambda outputs: [_text(output) for output in outputs] == [str(a * b)],
            "a product of two numbers came out wrong, or with something else",
        ),
        Canary(
            f"import numpy as _n\nbool(_n.isclose({a}, {2 * a + 5}) or _n.allclose([{a}], [{3 * a + 7}]))",
            lambda outputs: [_text(output) for output in outputs] == ["False"],
            "numpy calls unequal numbers close",
        ),
    ]


def _text(output: NotebookNode) -> str | None:
    return output.get("data", {}).get("text/plain") if output.output_type == "execute_result" else None
