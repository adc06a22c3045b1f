"""The package's log: `[time] [poptorch] [level] message`, to where POPTORCH_LOG_DEST says.

POPTORCH_LOG_LEVEL sets the level when the package is imported, `setLogLevel` at any time.
"""

import logging
import os
import sys
from datetime import datetime

TRACE = 5
OFF = logging.CRITICAL + 10
logging.addLevelName(TRACE, "TRACE")

_LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERR": logging.ERROR,
    "OFF": OFF,
}
# Before levels had names they had these numbers.
_LEGACY_LEVELS = {0: "TRACE", 1: "DEBUG", 2: "INFO", 3: "WARN", 4: "ERR", 6: "OFF"}
_SHOWN_AS = {
    TRACE: "trace",
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warning",
    logging.ERROR: "error",
}

logger = logging.getLogger("poptorch")


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")
        level = _SHOWN_AS.get(record.levelno, record.levelname.lower())
        return f"[{time}] [poptorch] [{level}] {record.getMessage()}"


class _Console(logging.StreamHandler):
    """Writes to what `sys.stderr` or `sys.stdout` is at that moment, a notebook's cell for example."""

    def __init__(self, name: str):
        logging.Handler.__init__(self)
        self._name_of_stream = name

    @property
    def stream(self):
        """The stream of now."""
        return getattr(sys, self._name_of_stream)


def setLogLevel(level: str | int) -> None:
    """Show messages from `level` on: TRACE, DEBUG, INFO, WARN, ERR or OFF, or one of the older numbers.

    ValueError for anything else.
    """
    name = _LEGACY_LEVELS.get(level) if isinstance(level, int) else level
    if name not in _LEVELS:
        known = ", ".join([*_LEVELS, *map(str, _LEGACY_LEVELS)])
        raise ValueError(f"There is no log level {level!r}; there are {known}.")
    logger.setLevel(_LEVELS[name])


def _set_up() -> None:
    destination = os.environ.get("POPTORCH_LOG_DEST", "stderr")
    if destination in ("stderr", "stdout"):
        handler = _Console(destination)
    else:
        handler = logging.FileHandler(destination)
    handler.setFormatter(_Formatter())
    logger.addHandler(handler)
    setLogLevel(os.environ.get("POPTORCH_LOG_LEVEL", "WARN"))


_set_up()
