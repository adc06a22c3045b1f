"""What ``labs/`` holds: in git's index, and on disk."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def in_git(root: Path) -> bool:
    """Whether a folder lies in a git work tree."""
    if not shutil.which("git"):
        return False
    command = ["git", "rev-parse", "--is-inside-work-tree"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True).stdout.strip() == "true"


def committed(root: Path) -> dict[str, bytes]:
    """Content of the files below ``labs/`` in git's index."""
    command = ["git", "ls-files", "-z", "labs"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    files = {}
    for path in filter(None, listed.split("\0")):
        shown = subprocess.run(["git", "show", f":./{path}"], cwd=root, capture_output=True, check=True)
        files[path.removeprefix("labs/")] = shown.stdout
    return files


def on_disk(labs: Path, folders: tuple[str, ...]) -> dict[str, bytes]:
    """Content of each lab's notebook and of its ``folders``, without what else a learner keeps there."""
    files = {}
    for lab in sorted(path for path in labs.glob("*") if path.is_dir()):
        for path in files_below(lab):
            if path == f"{lab.name}.ipynb" or path.split("/")[0] in folders:
                files[f"{lab.name}/{path}"] = (lab / path).read_bytes()
    return files


def files_below(folder: Path) -> list[str]:
    """Paths of all files below a folder, relative to it."""
    return [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
