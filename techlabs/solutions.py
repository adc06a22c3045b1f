"""Reading one solution out of a lab's source text."""

from __future__ import annotations

import re

from techlabs.paths import solution_folder


def solution_text(lab: str, exercise: str) -> str | None:
    """The code of the answer cell of `exercise`, or None where the lab's source isn't on this computer."""
    folder = solution_folder(lab)
    if folder is None:
        return None
    source = (folder / f"{folder.name}.py").read_text(encoding="utf-8")
    cell = re.search(rf'^# %%.*answer="{exercise}".*\n((?:(?!# %%).*\n)*)', source, re.MULTILINE)
    if cell is None:
        return None
    lines = [line for line in cell[1].splitlines() if "### BEGIN" not in line and "### END" not in line]
    return "\n".join(lines).strip("\n")
