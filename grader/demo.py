"""A course in little: six invented submissions of one lab, from submission to feedback."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.utils import is_grade, is_solution

from grader.build import write_notebook
from grader.course import Course, CourseError
from grader.grade import Result, grade
from grader.layout import Layout, load_config
from grader.rules import STUB


def demo(root: Path, lab: str, timeout: int | None = None) -> list[Result]:
    """Release a lab into a course of its own below build/demo, hand in the six, grade and give feedback.

    Args:
        root: where solutions/ and labs/ lie.
        lab: name of the lab.
        timeout: seconds for one cell, by default those of the course.

    Raises:
        SourceError, BuildError, CourseError: as for the steps it takes.
    """
    layout = Layout.find(root, course=root / "build" / "demo")
    shutil.rmtree(layout.course, ignore_errors=True)
    config = load_config(layout)
    # All six are handed in by one account, which isn't any of theirs.
    config.ExchangeCollect.check_owner = False
    if timeout:
        config.Execute.timeout = timeout
    course = Course(layout, config)
    course.release(lab)
    for student, notebook in submissions(layout, lab).items():
        folder = layout.course / "learners" / student
        write_notebook(notebook, folder / lab / f"{lab}.ipynb")
        course.submit(lab, student, folder)
    course.collect(lab)
    results = grade(course, lab)
    problems = [f"{student}: {problem}" for student, problem in course.feedback(lab) if problem]
    if problems:
        raise CourseError("\n".join(problems))
    return results


def submissions(layout: Layout, lab: str) -> dict[str, NotebookNode]:
    """The six notebooks, by the name of who hands each in."""
    released = nbformat.read(layout.labs / lab / f"{lab}.ipynb", as_version=4)
    source = nbformat.read(layout.source / lab / f"{lab}.ipynb", as_version=4)
    solved = {cell.id: cell.source for cell in source.cells if is_solution(cell)}
    perfect = deepcopy(released)
    for cell in perfect.cells:
        cell.source = solved.get(cell.id, cell.source)
    makers: dict[str, Callable[[NotebookNode, NotebookNode], None]] = {
        "perfect": lambda notebook, released: None,
        "partly-right": _forget_half,
        "untouched": _forget_all,
        "endless-loop": _loop,
        "deleted-test": _delete_test,
        "duplicated-cell": _duplicate_answer,
    }
    made = {}
    for student, change in makers.items():
        made[student] = deepcopy(perfect)
        change(made[student], released)
    return made


def _answers(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if is_solution(cell)]


def _forget_half(notebook: NotebookNode, released: NotebookNode) -> None:
    """The first half of the answers stays, rounded up."""
    answers = _answers(notebook)
    for cell, stub in list(zip(answers, _answers(released), strict=True))[(len(answers) + 1) // 2 :]:
        cell.source = stub.source


def _forget_all(notebook: NotebookNode, released: NotebookNode) -> None:
    notebook.cells = deepcopy(released.cells)


def _loop(notebook: NotebookNode, released: NotebookNode) -> None:
    """The last answer never ends."""
    _answers(notebook)[-1].source = _answers(released)[-1].source.replace(STUB, "while True: pass")


def _delete_test(notebook: NotebookNode, _released: NotebookNode) -> None:
    notebook.cells.remove(next(cell for cell in notebook.cells if is_grade(cell)))


def _duplicate_answer(notebook: NotebookNode, released: NotebookNode) -> None:
    """The stub of the first answer, pasted once more below the answer."""
    index = notebook.cells.index(_answers(notebook)[0])
    copy = deepcopy(_answers(released)[0])
    copy.id = "pasted"
    notebook.cells.insert(index + 1, copy)
