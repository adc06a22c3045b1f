"""What this computer has for the labs."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from importlib import metadata

from techlabs.machines import BenchError, bench
from techlabs.paths import records_folder
from techlabs.plugins import plugins


@dataclass(frozen=True)
class Finding:
    """One line of the report; `ok` is False when a lab can't run because of it."""

    subject: str
    ok: bool
    says: str


def examine() -> list[Finding]:
    """Look at Python, the packages, the machines of the course, and the learner's records."""
    return [
        Finding("Python", sys.version_info >= (3, 8), f"{platform.python_version()} in {sys.prefix}"),
        _package("torch"),
        _package("jupyterlab"),
        _package("nbgrader"),
        _machine("gpu"),
        _machine("ipu"),
        _records(),
        *_plugged_in(),
    ]


def _plugged_in() -> list[Finding]:
    """What concerns instructors alone: good to know, and no lab fails for it."""
    return [Finding(name, True, describe()[1]) for name, describe in plugins("techlabs.findings")]


def _package(name: str) -> Finding:
    try:
        return Finding(name, True, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(name, False, "missing: run `make start` in the course folder")


def _machine(name: str) -> Finding:
    try:
        found = bench(name)
    except (BenchError, ImportError) as error:
        return Finding(name.upper(), False, str(error))
    return Finding(found.machine, True, f"{found.backend}: {found.says}")


def _records() -> Finding:
    folder = records_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / "probe"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        return Finding("records", False, f"can't write {folder}: {error.strerror}. Set TECHLABS_HOME.")
    return Finding("records", True, f"predictions and results are kept in {folder}")
