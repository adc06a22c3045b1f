"""What goes wrong.

Exception
├── Error                     the machine, or this package on its behalf, refuses
│   ├── RecoverableError      worth trying again after `recovery_action`
│   └── UnrecoverableError    the hardware needs attention
└── ConfigFileError           a line of an options file can't be read
"""

PYTHON_ERROR = "poptorch_py_error"
RECOVERY_ACTIONS = ("IPU_RESET", "LINK_RESET", "PARTITION_RESET", "FULL_RESET")


class Error(Exception):
    """The machine refuses what it was asked to do.

    Attributes: `message`, the plain text; `type`, the kind of failure, `poptorch_py_error` when it was found
    in Python; `location`, `file:line` of the learner's code where that is known, else empty.
    """

    def __init__(self, message: str, type: str = PYTHON_ERROR, location: str = ""):
        super().__init__(message)
        self.message = message
        self.type = type
        self.location = location

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        return f"{where}'{self.type}': {self.message}"

    def __reduce__(self) -> tuple:
        return type(self), (self.message, self.type, self.location)


class RecoverableError(Error):
    """A failure of the hardware that resetting the part named by `recovery_action` may cure."""

    def __init__(
        self,
        message: str,
        type: str = "poplar_recoverable_runtime_error",
        location: str = "",
        recovery_action: str = "IPU_RESET",
    ):
        assert recovery_action in RECOVERY_ACTIONS, (
            f"There is no recovery action {recovery_action!r}; there are {', '.join(RECOVERY_ACTIONS)}."
        )
        super().__init__(message, type, location)
        self.recovery_action = recovery_action

    def __reduce__(self) -> tuple:
        return type(self), (self.message, self.type, self.location, self.recovery_action)


class UnrecoverableError(Error):
    """A failure of the hardware that no reset cures."""

    def __init__(self, message: str, type: str = "poplar_unrecoverable_runtime_error", location: str = ""):
        super().__init__(message, type, location)


class ConfigFileError(Exception):
    """An options file has a line that is not a call of one of the options' setters."""


def createPoptorchError(msg: str) -> Error:
    """An Error as this package raises it: its text is preceded by its type, `poptorch_py_error`."""
    return Error(msg)
