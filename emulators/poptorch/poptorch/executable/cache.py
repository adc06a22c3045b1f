"""Compiled models kept in a folder, so that processes that compile the same one do it once."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from poptorch.capture import stored
from poptorch.executable.device import Target
from poptorch.log import logger
from poptorch.options import Options

if TYPE_CHECKING:
    from poptorch.executable.compilation import Executable

# Options that do not change the compiled program.
_NOT_COMPILED_IN = ("cache_dir", "log_dir", "profile_dir", "model_name", "random_seed", "ipu_id")


def keep(executable: "Executable", options: Options, target: Target) -> None:
    """Put an executable into the cache folder that the options name, unless it is there already.

    A real compilation takes minutes and is skipped then; here it is the file that shows what would happen.
    """
    if options.cache_dir is None:
        return
    if target.is_model:
        logger.warning("The IPU model has no executable cache; enableExecutableCaching is ignored.")
        return
    folder = Path(options.cache_dir)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{_key(executable, options, target)}.executable"
    with _locked(folder):
        if path.exists():
            logger.debug("Found the executable in the cache: %s", path)
        else:
            path.write_bytes(stored.dumps(executable, executable.program))
            logger.debug("Saved the executable to the cache: %s", path)


def _key(executable: "Executable", options: Options, target: Target) -> str:
    """A name that is equal for equal programs, options and machines."""
    chosen = {name: value for name, value in options._values.items() if name not in _NOT_COMPILED_IN}
    operations = [(op.name, op.op, op.arguments, op.outputs) for op in executable.program.operations]
    parts = (operations, executable.inputs, chosen, options.Training, options.Precision, target.version)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time into the folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        logger.debug("Executable cache file locked")
        yield
    finally:
        logger.debug("Executable compilation released the cache lock")
        os.close(descriptor)
