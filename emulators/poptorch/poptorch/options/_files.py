"""Options from text: JSON in a string or an environment variable, and files of setter calls."""

import codeop
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poptorch import enums
from poptorch.errors import ConfigFileError

if TYPE_CHECKING:
    from poptorch.options._options import Options


def apply_json(options: "Options", string: str) -> None:
    """Call setters from JSON: {"deviceIterations": 4, "Precision.setPartialsType": ..., ...}.

    A key is a setter, in a group after a dot. A list holds a setter's positional arguments; "Enum.Member"
    becomes a member of the vendor's enumerations.
    """
    for dotted, value in json.loads(string).items():
        target: Any = options
        for name in dotted.split("."):
            target = getattr(target, name)
        target(*map(_with_enums, value if isinstance(value, list) else [value]))


def _with_enums(value: Any) -> Any:
    if isinstance(value, str) and value.count(".") == 1:
        enum_name, member = value.split(".")
        found = getattr(enums, enum_name, None)
        if isinstance(found, type) and issubclass(found, enums.Enum):
            return found[member]
    return value


def apply_file(options: "Options", filepath: str) -> None:
    """Call the setters listed in a file, one a line, as they would be written after `options.`.

    Comments and empty lines don't count. A line that can't be read is a ConfigFileError naming the kind of
    error, the file and the how-manieth setter it is.
    """
    import poptorch

    path = Path(filepath)
    lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    for number, line in enumerate(filter(None, lines), start=1):
        call = f"options.{line}"
        try:
            if codeop.compile_command(call, symbol="eval") is None:
                raise SyntaxError("unexpected EOF while parsing")
            eval(call, {"poptorch": poptorch, "options": options})
        except Exception as error:
            text = error.msg if isinstance(error, SyntaxError) else str(error)
            raise ConfigFileError(
                f"{type(error).__name__} at line {number} of {path.name}: {text}\n> {call}"
            ) from error
