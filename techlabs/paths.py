"""Where things are: a learner's own records, and the solutions where this computer has them."""

from __future__ import annotations

import os
from pathlib import Path


def records_folder() -> Path:
    """The folder of predictions, checks and results: $TECHLABS_HOME, else ~/.techlabs."""
    return Path(os.environ.get("TECHLABS_HOME", "~/.techlabs")).expanduser()


def solution_folder(lab: str) -> Path | None:
    """The folder solutions/NN_`lab`, or None on a computer that has labs but not their solutions."""
    root = os.environ.get("TECHLABS_ROOT") or Path(__file__).resolve().parents[1]
    found = sorted(Path(root, "solutions").glob(f"[0-9][0-9]_{lab}"))
    return found[0] if found else None
