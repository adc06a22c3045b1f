"""The rules of a lab source: what ``techlabs build`` refuses, with file, line and rule."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from grader.source import HEADER_KEYS, OUTPUT_MARK, OUTPUT_TAG, Cell, LabSource, cell_ids, stored_output

STUB = 'raise NotImplementedError("your code here")'

BEGIN_SOLUTION, END_SOLUTION = "### BEGIN SOLUTION", "### END SOLUTION"
BEGIN_HIDDEN, END_HIDDEN = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"
REGIONS = {BEGIN_SOLUTION: END_SOLUTION, BEGIN_HIDDEN: END_HIDDEN}
DELIMITERS = (*REGIONS, *REGIONS.values())
NEAR_DELIMITER = re.compile(r"\b(begin|end)\s+(hidden\s*tests?|solution)", re.IGNORECASE)

# nbformat allows these characters in a cell id, and grade_ids become cell ids.
_ID = re.compile(r"[A-Za-z0-9_-]{1,50}")
_OPTIONS = {"code": {"tags", "answer", "check", "points"}, "markdown": {"tags"}, "raw": {"tags"}}


@dataclass(frozen=True)
class Problem:
    """One broken rule."""

    path: Path
    line: int
    rule: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}"


class SourceError(Exception):
    """One or more lab sources break a rule; the message has one line for each."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))


def broken_rules(lab: LabSource) -> list[tuple[int, str]]:
    """Line and text of each broken rule of one lab source, in the order of the lines."""
    return sorted([*_header(lab), *_cells(lab), *_pairs(lab), *_ids(lab)])


def _header(lab: LabSource) -> Iterator[tuple[int, str]]:
    above = lab.lines[: lab.cells[0].line if lab.cells else None]
    for key in HEADER_KEYS:
        line = next((n for n, text in enumerate(above, 1) if text.strip("# ").startswith(f"{key}:")), 1)
        value = lab.header.get(key)
        if value is None or not str(value).strip():
            yield line, f"header key techlabs.{key} is missing; a lab states {', '.join(HEADER_KEYS)}"
        elif key in ("minutes", "machine_seconds") and not _is_positive(value):
            yield line, f"header key techlabs.{key} is {value!r}; it must be a positive number"
        elif key == "name" and value != lab.lab.split("_", 1)[-1]:
            yield line, f"header key techlabs.name is {value!r}; it must be the folder's name without number"
    for line in lab.preamble[:1]:
        yield line, "text above the first cell; start it with `# %%` or `# %% [markdown]`"


def _cells(lab: LabSource) -> Iterator[tuple[int, str]]:
    for cell in lab.cells:
        yield from _options(cell)
        yield from _delimiters(cell)
        if OUTPUT_TAG not in cell.tags and cell.kind == "code" and stored_output(cell):
            yield cell.line, f'stored output ("{OUTPUT_MARK}" lines) in a cell without the tag {OUTPUT_TAG}'


def _options(cell: Cell) -> Iterator[tuple[int, str]]:
    allowed = _OPTIONS[cell.kind]
    if "incorrectly_encoded_metadata" in cell.options:
        # jupytext's way to say that it can't read a cell's options.
        yield cell.line, f"cell options can't be read: {cell.options['incorrectly_encoded_metadata']}"
        return
    for name in sorted(set(cell.options) - allowed):
        yield cell.line, f"unknown option {name!r}; a {cell.kind} cell takes {', '.join(sorted(allowed))}"
    if "answer" in cell.options and "check" in cell.options:
        yield cell.line, "a cell is an answer or a check, not both"
    for name in {"answer", "check"} & set(cell.options):
        value = cell.options[name]
        if not isinstance(value, str) or not _ID.fullmatch(value):
            yield cell.line, f'{name} has no id; write {name}="x1" (1-50 letters, digits, - and _)'
    if "check" in cell.options and not _is_positive(cell.options.get("points")):
        yield cell.line, f'check "{cell.options["check"]}": points are missing or not a positive number'
    if "points" in cell.options and "check" not in cell.options:
        yield cell.line, "points stand on a check only"


def _is_positive(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value > 0


def _delimiters(cell: Cell) -> Iterator[tuple[int, str]]:
    """Every region is closed, spelt exactly, in the right kind of cell, and inside a function."""
    opened: tuple[int, str] | None = None
    regions = set()
    for number, text in cell.text:
        word = text.strip()
        if word in REGIONS:
            if opened:
                yield number, f"{word!r} before the region of line {opened[0]} has ended"
            opened = number, word
            regions.add(word)
            wanted = "answer" if word == BEGIN_SOLUTION else "check"
            if wanted not in cell.options:
                yield number, f"{word!r} outside a cell with {wanted}="
        elif word in REGIONS.values():
            if not opened or REGIONS[opened[1]] != word:
                yield number, f"{word!r} ends no region"
            opened = None
        elif NEAR_DELIMITER.search(text):
            yield number, f"{word!r} looks like a delimiter but isn't one of {', '.join(DELIMITERS)}"
    if opened:
        yield opened[0], f"{opened[1]!r} is never ended by {REGIONS[opened[1]]!r}"
    elif "answer" in cell.options:
        if BEGIN_SOLUTION not in regions:
            yield cell.line, f'answer "{cell.options["answer"]}" has no solution region ({BEGIN_SOLUTION!r})'
        else:
            yield from _placement(cell)


def _placement(cell: Cell) -> Iterator[tuple[int, str]]:
    """A region outside a function would leave a stub that stops the learner's notebook."""
    begins = [number for number, text in cell.text if text.strip() == BEGIN_SOLUTION]
    top = [number for number, text in cell.text if text.strip() == BEGIN_SOLUTION and not text[0].isspace()]
    for number in top:
        yield number, "solution region at top level; put it inside a function or method"
    if top:
        return
    try:
        tree = ast.parse(stubbed(cell.source))
    except SyntaxError as error:
        yield (
            cell.line,
            f'answer "{cell.options["answer"]}" is no valid Python without its solution: {error.msg}',
        )
        return
    stubs = sorted((node for node in ast.walk(tree) if _is_stub(node)), key=lambda node: node.lineno)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    for number, stub in zip(begins, stubs, strict=False):
        if id(stub) not in inside:
            yield number, "solution region outside a function; its stub would stop the notebook"


def _is_stub(node: ast.AST) -> bool:
    return isinstance(node, ast.Raise) and ast.unparse(node) == ast.unparse(ast.parse(STUB))


def stubbed(source: str) -> str:
    """An answer's source with nbgrader's stub in place of each solution region."""
    lines, inside = [], False
    for line in source.splitlines():
        if line.strip() == BEGIN_SOLUTION:
            lines.append(line[: len(line) - len(line.lstrip())] + STUB)
            inside = True
        elif line.strip() == END_SOLUTION:
            inside = False
        elif not inside:
            lines.append(line)
    return "\n".join(lines)


def _pairs(lab: LabSource) -> Iterator[tuple[int, str]]:
    """Each answer has a check below it, and each check an answer above it."""
    answers, checks = _named(lab, "answer"), _named(lab, "check")
    for name, line in answers.items():
        if name not in checks:
            yield line, f'answer "{name}" has no check; add a cell `# %% check="{name}" points=1`'
    for name, line in checks.items():
        if name not in answers:
            yield line, f'check "{name}" has no answer; add a cell `# %% answer="{name}"`'
        elif answers[name] > line:
            yield line, f'check "{name}" stands above its answer (line {answers[name]})'


def _named(lab: LabSource, option: str) -> dict[str, int]:
    """Ids given by an option, with the line of the first cell that carries each."""
    cells = [cell for cell in reversed(lab.cells) if isinstance(cell.options.get(option), str)]
    return {cell.options[option]: cell.line for cell in cells}


def _ids(lab: LabSource) -> Iterator[tuple[int, str]]:
    seen: dict[str, int] = {}
    for cell, cell_id in zip(lab.cells, map(str, cell_ids(lab.cells)), strict=True):
        if cell_id in seen:
            yield cell.line, f'id "{cell_id}" is already taken by the cell of line {seen[cell_id]}'
        seen.setdefault(cell_id, cell.line)
