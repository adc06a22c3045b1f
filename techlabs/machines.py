"""The bench: which machine runs a lab, and whether it is the chip or a stand-in."""

from __future__ import annotations

import html
import importlib.util
import platform
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Callable


@dataclass(frozen=True)
class Bench:
    """A machine that is ready to run a lab.

    Attributes:
        machine: "GPU" or "IPU".
        backend: "hardware", "emulator" or "stand-in": what runs when the lab says the machine's name.
        says: one sentence for the learner.
        versions: (package, version) pairs.
        device: the torch.device that plain PyTorch code of this lab uses.
    """

    machine: str
    backend: str
    says: str
    versions: tuple[tuple[str, str], ...]
    device: Any

    def __repr__(self) -> str:
        versions = ", ".join(f"{package} {version}" for package, version in self.versions)
        return f"{self.machine} ({self.backend}): {self.says}\n{versions}"

    def _repr_html_(self) -> str:
        lines = html.escape(repr(self)).split("\n")
        return f'<div style="border-left:5px solid #009E73;padding:4px 12px">{"<br>".join(lines)}</div>'


class BenchError(RuntimeError):
    """The machine of a lab can't be used here; the message says what to do."""


def bench(machine: str) -> Bench:
    """Check that the machine of a lab can be used, and say what stands behind it.

    Args:
        machine: "gpu" or "ipu".

    Raises:
        BenchError: the machine isn't one of the course's, or a package of it is missing.
    """
    if machine not in _MACHINES:
        raise BenchError(f"No bench for {machine!r}. The benches are: {', '.join(sorted(_MACHINES))}.")
    return _MACHINES[machine]()


def poptorch_backend() -> str | None:
    """ "hardware" with Graphcore's PopTorch, "emulator" with the course's, None without either.

    Where both are installed, Graphcore's is the one that is imported: the emulator installs as a link, which
    Python looks at last.
    """
    if importlib.util.find_spec("poptorch") is None:
        return None
    return "emulator" if _version("techlabs-poptorch") and not _version("poptorch") else "hardware"


def _gpu() -> Bench:
    import torch

    if torch.cuda.is_available():
        says = f"{torch.cuda.get_device_name()} runs this lab."
        return Bench("GPU", "hardware", says, _versions("torch"), torch.device("cuda"))
    says = "No CUDA device here: the CPU runs the same PyTorch code."
    return Bench("GPU", "stand-in", says, _versions("torch"), torch.device("cpu"))


def _ipu() -> Bench:
    import torch

    backend = poptorch_backend()
    if backend is None:
        raise BenchError(
            "No poptorch in this kernel. On a laptop: run `make start` in the course folder. "
            "On an IPU machine: choose the kernel in which Graphcore's SDK is installed."
        )
    if backend == "emulator":
        says = "An emulated IPU on this computer. Results are real; the chip's speed is not."
        package = "techlabs-poptorch"
    else:
        says = "Graphcore's PopTorch runs this lab on a real IPU."
        package = "poptorch"
    return Bench("IPU", backend, says, _versions(package, "torch"), torch.device("cpu"))


_MACHINES: dict[str, Callable[[], Bench]] = {"gpu": _gpu, "ipu": _ipu}


def _versions(*packages: str) -> tuple[tuple[str, str], ...]:
    versions = [(package, _version(package) or "of unknown version") for package in packages]
    return (*versions, ("Python", platform.python_version()))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
