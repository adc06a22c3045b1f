"""The learner's own lines: which of them led to an operation or to an exception."""

import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import torch
from torch import fx

from poptorch.errors import Error

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\n\s*(?P<text>.*)')
_NOT_THE_LEARNERS = (str(Path(torch.__file__).parent), str(Path(__file__).parents[1]))
_CAPTURE = str(Path(__file__).with_name("trace.py"))


@dataclass(frozen=True)
class SourceLine:
    """A line of the learner's code."""

    file: str
    line: int
    function: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} (in {self.function}): {self.text}"


def located(message: str, source: SourceLine | None) -> Error:
    """An error that names the learner's line, where one is known."""
    if source is None:
        return Error(message)
    return Error(f"{message}\n  at {source}", location=f"{source.file}:{source.line}")


def source_of(node: fx.Node) -> SourceLine | None:
    """The innermost line of the learner's code that led to a node."""
    frames = list(_FRAME.finditer(node.meta.get("stack_trace") or ""))
    if not frames:
        return None
    file, line, function, text = frames[-1].group("file", "line", "function", "text")
    return SourceLine(file, int(line), function, text.strip())


def source_of_error(error: BaseException) -> SourceLine | None:
    """The innermost line of the learner's code on the way to an exception."""
    return _innermost(traceback.extract_tb(error.__traceback__))


def current_source() -> SourceLine | None:
    """The innermost line of the learner's code that is running now."""
    return _innermost(traceback.extract_stack())


def _innermost(stack: traceback.StackSummary) -> SourceLine | None:
    frames = _learners_frames(stack)
    if not frames:
        return None
    innermost = frames[-1]
    return SourceLine(innermost.filename, innermost.lineno or 0, innermost.name, innermost.line or "")


def _learners_frames(stack: traceback.StackSummary) -> list[traceback.FrameSummary]:
    """The frames below the traced `forward` that are neither PyTorch's nor ours, the innermost last."""
    ours = [index for index, frame in enumerate(stack) if frame.filename == _CAPTURE]
    below = stack[ours[-1] + 1 :] if ours else []
    return [frame for frame in below if not frame.filename.startswith(_NOT_THE_LEARNERS)]


@contextmanager
def whole_stack_traces() -> Iterator[None]:
    """Have operations remember all the learner's frames; PyTorch keeps those of functions called forward."""

    def filtered(_tracer: fx.Tracer, stack: traceback.StackSummary) -> traceback.StackSummary:
        return traceback.StackSummary.from_list(_learners_frames(stack))

    with mock.patch.object(fx.proxy.TracerBase, "_filter_traceback_frames", filtered):
        yield
