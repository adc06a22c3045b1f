"""What goes wrong.

Exception
└── Error                     the machine, or this package on its behalf, refuses
    ├── RecoverableError      worth trying again after `recovery_action`
    └── UnrecoverableError    the hardware needs attention
"""


class Error(Exception):
    """The machine refuses what it was asked to do.

    Attributes: `message`, the plain text; `type`, the kind of failure, `poptorch_py_error` when it was found
    in Python; `location`, `file:line` of the learner's code where that is known, else empty.
    """

    def __init__(self, message: str, type: str = "poptorch_py_error", location: str = ""):
        super().__init__(message)
        self.message = message
        self.type = type
        self.location = location

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        return f"{where}'{self.type}': {self.message}"


class RecoverableError(Error):
    """A failure of the hardware that resetting the part named by `recovery_action` may cure."""

    def __init__(
        self, message: str, type: str = "poplar_recoverable_error", recovery_action: str = "IPU_RESET"
    ):
        super().__init__(message, type)
        self.recovery_action = recovery_action


class UnrecoverableError(Error):
    """A failure of the hardware that no reset cures."""
