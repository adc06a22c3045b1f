"""A toy lab, so that these tests need neither torch nor the real labs: two answers, two checks, 5 points."""

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
assert double(3) == 6
### BEGIN HIDDEN TESTS
assert double(-7) == -14
### END HIDDEN TESTS

# %% [markdown]
# More.

# %% answer="triple"
def triple(x):
    ### BEGIN SOLUTION
    return 3 * x
    ### END SOLUTION

# %% check="triple" points=3
assert triple(3) == 9
### BEGIN HIDDEN TESTS
assert triple(-7) == -21
### END HIDDEN TESTS
'''
SOLVED = {
    "double": "def double(x):\n    return 2 * x",
    "triple": "def triple(x):\n    return 3 * x",
}


def _layout(root: Path, source: str = TOY) -> Layout:
    folder = root / "solutions" / LAB
    folder.mkdir(parents=True)
    (folder / f"{LAB}.py").write_text(source, encoding="utf-8")
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
    """A course with the toy lab released and no submissions; a cell may take 3 s, a submission 8 s."""
    layout = _layout(tmp_path_factory.mktemp("course"))
    config = load_config(layout)
    config.Execute.timeout = 3
    config.ExecuteSubmission.budget = 8
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
