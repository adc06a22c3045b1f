"""A toy lab, so that these tests need neither torch nor the real labs: two exercises, 5 points."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode

from grader.build import build
from grader.course import Course
from grader.layout import Layout, load_config

LAB = "01_toy"
TOY = '''\
# ---
# jupyter:
#   techlabs:
#     name: toy
#     title: A toy
#     minutes: 5
#     machine_seconds: 1
#     device: "any | all"
#     needs: nothing
# ---

# %% [markdown]
# # Toy
#
# {{ facts }}

# %% tags=["nbval-check-output"]
import techlabs

lab = techlabs.Lab("toy")
base = 10
print(base)
print()
# > 10
# >

# %% answer="double"
def double(x):
    """Twice x."""
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION

# %% check="double" points=2
lab.check("double", double)
### BEGIN HIDDEN TESTS
lab.grade("double", double)
### END HIDDEN TESTS

# %% [markdown]
# More.

# %% answer="triple"
def triple(x):
    ### BEGIN SOLUTION
    return 3 * x
    ### END SOLUTION

# %% check="triple" points=3
lab.check("triple", triple)
### BEGIN HIDDEN TESTS
lab.grade("triple", triple)
### END HIDDEN TESTS
'''
EXERCISES = """\
from techlabs.exercise import Exercise, Wrong


class Times(Exercise):
    hints = ("a", "b", "c")

    def __init__(self, name, factor):
        self.name, self.title, self.factor = name, f"{name} x", factor
        self.cases = ({"x": 3},)

    def observe(self, answer, x):
        return {"result": answer(x)}

    def judge(self, seen, x):
        if type(seen["result"]) is not int or seen["result"] != self.factor * x:
            raise Wrong(f"{self.factor * x}", f"{seen['result']!r}", "the factor")


EXERCISES = (Times("double", 2), Times("triple", 3))
"""
HIDDEN = 'CASES = {"double": [{"x": -7}], "triple": [{"x": -7}]}\n'
SOLVED = {
    "double": "def double(x):\n    return 2 * x",
    "triple": "def triple(x):\n    return 3 * x",
}


def _layout(root: Path, source: str = TOY) -> Layout:
    folder = root / "solutions" / LAB
    folder.mkdir(parents=True)
    (folder / f"{LAB}.py").write_text(source, encoding="utf-8")
    (folder / "hidden.py").write_text(HIDDEN, encoding="utf-8")
    exercises = root / "exercises" / "toy.py"
    exercises.parent.mkdir(parents=True)
    exercises.write_text(EXERCISES, encoding="utf-8")
    return Layout.find(root, course=root / "course")


@pytest.fixture
def toy_source() -> str:
    """The text source of the toy lab."""
    return TOY


@pytest.fixture
def make_layout(tmp_path: Path) -> Callable[..., Layout]:
    """A root with the toy lab, or another text for it, not yet built."""
    return lambda source=TOY: _layout(tmp_path, source)


@pytest.fixture(scope="module")
def released_course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Course]:
    """A course with the toy lab released and no submissions; a cell has 3 s, a submission 8 s and 500 MB."""
    layout = _layout(tmp_path_factory.mktemp("course"))
    config = load_config(layout)
    config.Execute.timeout = 3
    config.ExecuteSubmission.budget = 8
    config.ExecuteSubmission.memory_mb = 500
    course = Course(layout, config)
    course.release(LAB)
    return course


@pytest.fixture(scope="session")
def toy_notebook(tmp_path_factory: pytest.TempPathFactory) -> NotebookNode:
    """The toy lab as released; not to be changed."""
    layout = _layout(tmp_path_factory.mktemp("toy"))
    build(layout)
    return nbformat.read(layout.labs / LAB / f"{LAB}.ipynb", as_version=4)


@pytest.fixture
def untouched(toy_notebook: NotebookNode) -> NotebookNode:
    """A copy of the released notebook."""
    return deepcopy(toy_notebook)


@pytest.fixture
def solved(toy_notebook: NotebookNode) -> NotebookNode:
    """A copy of the released notebook with right answers."""
    notebook = deepcopy(toy_notebook)
    for cell in notebook.cells:
        cell.source = SOLVED.get(cell.id, cell.source)
    return notebook
