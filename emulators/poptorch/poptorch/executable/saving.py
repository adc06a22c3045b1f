"""Compiled models in files: an executable with its options and, if wanted, the model and its optimizer."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from poptorch.capture import stored
from poptorch.enums import ConnectionType
from poptorch.errors import Error
from poptorch.executable.compilation import Executable
from poptorch.executable.version import VERSION
from poptorch.log import logger
from poptorch.options import Options

if TYPE_CHECKING:
    from poptorch.executor import PoplarExecutor

_DEFAULT_NAME = "model.poptorch"


def save(
    filename: str,
    executable: Executable,
    options: Options,
    training: bool,
    model: torch.nn.Module | None,
    optimizer: torch.optim.Optimizer | None,
    random_state: list[int] | None,
) -> None:
    """Write one file; a folder gets a file `model.poptorch` in it, with a warning.

    `model` and `optimizer` are None where they are not to be exported.
    """
    path = Path(os.fspath(filename))
    if path.is_dir():
        path = path / _DEFAULT_NAME
        logger.warning("%s is a folder; the model is saved as %s.", filename, path)
    content = {
        "executable": executable,
        "options": options,
        "training": training,
        "random_state": random_state,
        # Together, so that the optimizer's parameters are the model's.
        "model": None if model is None else (model, optimizer),
    }
    packed = stored.dumps(content, executable.program)
    path.write_bytes(pickle.dumps({"version": VERSION, "content": packed}))


def read(filename: str) -> dict[str, Any]:
    """What `save` has written. AssertionError for a file of another version."""
    outer = pickle.loads(Path(filename).read_bytes())
    assert outer["version"] == VERSION, (
        f"{filename} was saved by PopTorch version {outer['version']}, but this is version {VERSION}: a "
        "compiled model only works with the version that compiled it. Compile it again."
    )
    return pickle.loads(outer["content"])


def read_executable(filename: str) -> dict[str, Any]:
    """The same for a wrapped model, to which a file of another version is an Error."""
    try:
        return read(filename)
    except AssertionError as error:
        raise Error(str(error)) from None


def load(filename: str, edit_opts_fn: Callable[[Options], None] | None = None) -> "PoplarExecutor":
    """A wrapped model, ready to run, from a file that was saved with `export_model=True`.

    `edit_opts_fn` may change the options before the model is wrapped. AssertionError for a file of another
    version or without a model.
    """
    # The executor itself saves, so this module can't import it at the top.
    from poptorch.executable.wrapping import inferenceModel, trainingModel

    content = read(filename)
    assert content["model"] is not None, (
        f"{filename} holds an executable but no model: it was saved with export_model=False. Wrap the model "
        "yourself and call loadExecutable on it."
    )
    model, optimizer = content["model"]
    options = online(content["options"])
    if edit_opts_fn is not None:
        edit_opts_fn(options)
    wrapped = (
        trainingModel(model, options, optimizer) if content["training"] else inferenceModel(model, options)
    )
    wrapped.loadExecutable(filename)
    return wrapped


def online(options: Options) -> Options:
    """A copy of the options for a machine with a device, whatever they were compiled for."""
    options = options.clone()
    if options.connection_type == ConnectionType.Never:
        options.connectionType(ConnectionType.Always)
    return options
