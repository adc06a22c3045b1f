"""What code for the real package takes from its compiled part: errors and a check of options."""

from typing import Any

from poptorch.errors import Error, RecoverableError, UnrecoverableError
from poptorch.ops import tracing
from poptorch.options import validate

__all__ = ["Error", "RecoverableError", "UnrecoverableError", "isCompilingWithDispatcher"]


def isCompilingWithDispatcher() -> bool:
    """Whether a model is being captured."""
    return tracing() is not None


def _validateOptions(options: dict[str, Any]) -> None:
    """Check and log what `Options.toDict()` gives; Error for an unknown PopART option or type of value."""
    validate(options)
