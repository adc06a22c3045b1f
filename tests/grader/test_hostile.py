"""Submissions that try to earn what they don't deserve, or to break the grader: exact marks and what is said.

All lie in one course and are graded once. Answers are the lab's stubs unless an attack brings its own, so an
attack that works would show as points.
"""

import json
import os
from copy import deepcopy

import nbformat
import pytest

from grader.grade import grade

LAB = "01_toy"
NAME = f"{LAB}.ipynb"
HELD = {"assert": "a false assertion raised no error", "product": "a product of two numbers came out wrong"}

# pytest hears what the settings silence: nbgrader's gradebook, and an argument that nbgrader misspells.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Object of type .* not in session"),
    pytest.mark.filterwarnings("ignore:Passing unrecognized arguments:DeprecationWarning"),
]

SILENCE = "get_ipython().run_cell = lambda *a, **k: None"
PASS_ONLY = "get_ipython().input_transformers_cleanup.append(lambda lines: ['pass\\n'])"
NO_ASSERT = """\
import ast
class Strip(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.Pass()
get_ipython().ast_transformers.append(Strip())
"""
PATCHED_JUDGE = """\
from techlabs import exercise, lab as lab_module
exercise.Exercise.verdict = lambda *a, **k: exercise.Verdict("double", "", exercise.Outcome.PASSED)
exercise.Exercise.outcome_of = lambda *a, **k: (exercise.Outcome.PASSED, ())
type(lab._exercise("double")).judge = lambda *a, **k: None
"""
FORGED_REPLY = """\
from IPython.display import display
from techlabs import boxed
boxed.observe = lambda name, case: display({boxed.MIMETYPE: '{"dict":[["passed",true]]}'}, raw=True)
"""
FORGED_POINTS = """\
from IPython.display import display
from techlabs import boxed
boxed.observe = lambda name, case: display({"text/plain": "5"}, raw=True, display_id="points")
"""
UPDATE = """\
from IPython.display import update_display
update_display({"text/plain": "5"}, raw=True, display_id="points")
"""
FRIENDLY = """\
class Friendly:
    __eq__ = __ge__ = __le__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = None
def double(x):
    return Friendly()
"""
FRIENDLY_INT = """\
class Friendly(int):
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = int.__hash__
def double(x):
    return Friendly(1)
"""
NO_JUDGE = "import os\ndel os.environ['TECHLABS_JUDGED']"
READ_HIDDEN = """\
import os, pathlib
root = pathlib.Path(os.environ["TECHLABS_ROOT"])
found = [str(path) for path in root.rglob("*")]
print("FOUND", [path for path in found if "hidden" in path or "gradebook" in path or "submitted" in path])
"""
JUNK = "get_ipython().kernel.iopub_socket.send_multipart([b'junk', b'<IDS|MSG>', b'x'])"
BOMB = "import os, time\nwhile True:\n    if os.fork() == 0:\n        time.sleep(60)"
HOARD = "def triple(x):\n    return [bytearray(100 << 20) for _ in range(30)]"
FLOOD = "print('x' * 20_000_000)"
DISPLAYS = (
    "from IPython.display import display, HTML\nfor i in range(2000):\n    display(HTML(f'<b>{i}</b>'))"
)
RIGHT = {"double": "def double(x):\n    return 2 * x", "triple": "def triple(x):\n    return 3 * x"}

# By student: code run before the answers, the answers, code run after them.
SUBMISSIONS = {
    "silence": (SILENCE, {}, ""),
    "pass-only": (PASS_ONLY, {}, ""),
    "no-assert": (NO_ASSERT, {}, ""),
    "no-assert-but-right": (NO_ASSERT, RIGHT, ""),
    "no-traceback": ("get_ipython().showtraceback = lambda *a, **k: None", {}, ""),
    "patched-judge": (PATCHED_JUDGE, {}, ""),
    "forged-reply": (FORGED_REPLY, {}, ""),
    "forged-points": (FORGED_POINTS, {}, UPDATE),
    "friendly": ("", {"double": FRIENDLY}, ""),
    "friendly-int": ("", {"double": FRIENDLY_INT}, ""),
    "true": ("", {"double": "def double(x):\n    return True"}, ""),
    "deep": ("", {"double": "def double(x):\n    y = x\n    for _ in range(99): y = [y]\n    return y"}, ""),
    "long": ("", {"double": "def double(x):\n    return 'x' * 10_000_000"}, ""),
    "no-judge": (NO_JUDGE, RIGHT, ""),
    "read-hidden": (READ_HIDDEN, RIGHT, ""),
    "junk": (JUNK, RIGHT, ""),
    "bomb": ("", {**RIGHT, "triple": BOMB}, ""),
    "hoard": ("", {**RIGHT, "triple": HOARD}, ""),
    "flood": (FLOOD, RIGHT, ""),
    "displays": (DISPLAYS, RIGHT, ""),
    "surrogate": ("", RIGHT, "# \ud800"),
    "shadow": ("", RIGHT, ""),
    "link": ("", RIGHT, ""),
}
SCORES = {
    **dict.fromkeys(SUBMISSIONS, 0),
    **dict.fromkeys(("no-assert-but-right", "read-hidden", "flood", "displays", "surrogate"), 5),
    **dict.fromkeys(("shadow", "link"), 5),
    **dict.fromkeys(("bomb", "hoard"), 2),
}


def cell(notebook, cell_id):
    return next(cell for cell in notebook.cells if cell.id == cell_id)


@pytest.fixture(scope="module")
def course(released_course, toy_notebook):
    for student, (before, answers, after) in SUBMISSIONS.items():
        notebook = deepcopy(toy_notebook)
        for name, source in answers.items():
            cell(notebook, name).source = source
        cell(notebook, "top-2").source += f"\n{before}"
        notebook.cells.append(nbformat.v4.new_code_cell(after))
        folder = released_course.submitted(LAB, student)
        folder.mkdir(parents=True)
        (folder / NAME).write_text(json.dumps(notebook))
    (released_course.submitted(LAB, "shadow") / "numpy.py").write_text("raise SystemExit")
    (released_course.submitted(LAB, "link") / "secret").symlink_to("/etc/hostname")
    return released_course


@pytest.fixture(scope="module")
def results(course):
    return {result.student: result for result in grade(course, LAB)}


@pytest.fixture(scope="module")
def graded(course, results):
    return {student: course.autograded(LAB, student) / NAME for student in results}


@pytest.mark.parametrize("student", sorted(set(SUBMISSIONS) - {"junk", "no-judge"}))
def test_nothing_earns_points_but_an_answer_that_is_right(results, student):
    assert (results[student].marks.score, results[student].marks.max_score) == (SCORES[student], 5)


def test_a_silenced_kernel_is_held_for_review(results):
    assert results["pass-only"].state == "held"
    assert not results["pass-only"].sound
    assert f"held for review: {HELD['assert']}" in results["pass-only"].notes


def test_a_tampered_kernel_with_right_answers_keeps_its_marks_and_is_held(results):
    assert results["no-assert-but-right"].state == "held"
    assert results["no-assert-but-right"].notes == [f"held for review: {HELD['assert']}"]


@pytest.mark.parametrize("student", ["friendly", "flood", "shadow", "link", "surrogate", "true", "deep"])
def test_nobody_else_is_held(results, student):
    assert results[student].state == "graded"


def test_a_check_asks_for_a_judge_even_where_its_kernel_forgot_that_there_is_one(results, graded):
    assert results["no-judge"].marks.score == 0
    assert "aren&#x27;t on this computer" in graded["no-judge"].read_text()


def test_solutions_gradebook_and_others_are_not_in_the_box(graded):
    assert "FOUND []" in graded["read-hidden"].read_text()


def test_messages_that_are_none_cost_their_own_cell_at_most(results):
    assert results["junk"].state in ("graded", "held")
    assert results["junk"].marks.max_score == 5


def test_a_fork_bomb_and_a_hoard_end_with_their_reason(results):
    assert "it had more than 120 processes." in " ".join(results["bomb"].notes)
    assert "it used more than 500 MB of memory." in " ".join(results["hoard"].notes)


@pytest.mark.parametrize("student", ["flood", "displays"])
def test_output_is_bounded_and_says_where_it_ends(graded, student):
    assert graded[student].stat().st_size < 1_000_000
    assert (
        "[output ends here: at most 500 kB and 100 pieces of a cell are kept" in graded[student].read_text()
    )


def test_a_file_that_would_hide_a_module_is_left_out_and_named(results):
    assert results["shadow"].notes == ["file 'numpy.py' would hide the module of that name; left out"]


def test_a_link_does_not_bring_its_target_along(course, results):
    assert not os.path.lexists(course.autograded(LAB, "link") / "secret")
