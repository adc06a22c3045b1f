"""What joins `techlabs` where it is installed: `techlabs` itself never imports the grader."""

from __future__ import annotations

import sys
from importlib.metadata import distribution
from typing import Any, Iterator


def plugins(group: str) -> Iterator[tuple[str, Any]]:
    """Names and objects of the entry points of a group, on a Python new enough for them.

    A learner's kernel may be older: there it yields nothing.
    """
    if sys.version_info < (3, 11):
        return
    for entry in distribution("techlabs").entry_points:
        if entry.group == group:
            yield entry.name, entry.load()
