"""Grading a lab: marks, repairs, limits, and bad input that takes nobody else along.

All submissions lie in one course and are graded once; each test looks at one of them.
"""

import json
from copy import deepcopy
from pathlib import Path

import nbformat
import pytest

from grader.build import write_notebook
from grader.course import Course, CourseError
from grader.grade import grade, report

LAB = "01_toy"
NAME = f"{LAB}.ipynb"

# pytest hears what the settings silence: nbgrader's gradebook, and an argument that nbgrader misspells.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Object of type .* not in session"),
    pytest.mark.filterwarnings("ignore:Passing unrecognized arguments:DeprecationWarning"),
]


def cell(notebook, cell_id):
    return next(cell for cell in notebook.cells if cell.id == cell_id)


WARNS = """\
import sys, warnings
def double(x):
    warnings.warn("old")
    print("!", file=sys.stderr)
    return 2 * x
"""
STUBBORN = """\
import signal
def triple(x):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True: pass
"""


def honest(solved, untouched):
    """Submissions that open in JupyterLab, by student."""
    made = {name: deepcopy(solved) for name in HONEST}
    made["untouched"] = deepcopy(untouched)
    cell(made["partly"], "triple").source = cell(untouched, "triple").source
    cell(made["hidden"], "double").source = "def double(x):\n    return {3: 6}[x]"
    cell(made["warns"], "double").source = WARNS
    cell(made["loop"], "double").source = "def double(x):\n    while True: pass"
    cell(made["loops"], "double").source = "def double(x):\n    while True: pass"
    cell(made["loops"], "top-2").source += "\nwhile True: pass"
    cell(made["stubborn"], "triple").source = STUBBORN
    cell(made["dies"], "triple").source = "import os\ndef triple(x):\n    os._exit(1)"
    cell(made["dies-first"], "double").source = "import os\nos._exit(1)"
    made["deleted"].cells.remove(cell(made["deleted"], "double-check"))
    made["kernel"].metadata.kernelspec = {"name": "julia-1.9", "display_name": "Julia"}
    made["no-kernel"].metadata.pop("kernelspec")
    cell(made["skips"], "triple").source = "pass"
    cell(made["skips"], "triple-check").metadata.tags = ["skip-execution"]
    made["duplicate"].cells.insert(3, deepcopy(cell(untouched, "double")))
    made["old-minor"].nbformat_minor = 2
    for each in made["old-minor"].cells:
        del each["id"]
    made["widgets"].metadata.widgets = {"application/vnd.jupyter.widget-state+json": {}}
    made["forged"].metadata.techlabs = {"repairs": ["all points given"]}
    return made


HONEST = [
    *("perfect", "untouched", "partly", "hidden", "warns", "loop", "loops", "stubborn", "dies", "dies-first"),
    *("deleted", "kernel", "no-kernel", "skips", "duplicate", "old-minor", "widgets", "forged", "bom"),
]


def damaged(solved):
    """What else arrives, by student: the file's name and its bytes."""
    bare = deepcopy(solved)
    for each in bare.cells:
        each.metadata.pop("nbgrader", None)
    text = nbformat.writes(solved).encode()
    return {
        "bom": (NAME, b"\xef\xbb\xbf" + text),
        "renamed": ("01_toy-Copy1.ipynb", text),
        "empty": (NAME, b""),
        "not-json": (NAME, b"def double(x): return 2 * x"),
        "truncated": (NAME, text[: len(text) // 2]),
        "latin-1": (NAME, "naïve".encode("latin-1")),
        "a-list": (NAME, b"[]"),
        "no-notebook": (NAME, b'{"cells": []}'),
        "format-3": (NAME, nbformat.v3.writes_json(nbformat.convert(deepcopy(solved), 3)).encode()),
        "format-5": (NAME, json.dumps({"nbformat": 5, "cells": []}).encode()),
        "bad-cells": (NAME, json.dumps({**solved, "cells": [{"source": 5}, *solved.cells]}).encode()),
        "no-metadata": (NAME, nbformat.writes(bare).encode()),
        "nothing": ("notes.txt", b"sorry"),
    }


def hand_in(course, student: str) -> Path:
    """The folder where `collect` puts a student's submission."""
    folder = course.submitted(LAB, student)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def course(released_course, toy_notebook):
    """The toy course with everything handed in and graded once."""
    solved = deepcopy(toy_notebook)
    for cell_id, factor in (("double", 2), ("triple", 3)):
        cell(solved, cell_id).source = f"def {cell_id}(x):\n    return {factor} * x"
    for student, notebook in honest(solved, toy_notebook).items():
        # By json, since nbformat would mend the pasted cell's id.
        (hand_in(released_course, student) / NAME).write_text(json.dumps(notebook))
    for student, (name, content) in damaged(solved).items():
        (hand_in(released_course, student) / name).write_bytes(content)
    (hand_in(released_course, "no-date") / NAME).write_text(nbformat.writes(solved))
    (hand_in(released_course, "no-date") / "timestamp.txt").write_text("yesterday evening")
    return released_course


@pytest.fixture(scope="module")
def results(course):
    """What one run of grading says, by student."""
    return {result.student: result for result in grade(course, LAB)}


@pytest.mark.parametrize(
    ("student", "score"),
    {
        "perfect": 5,
        "untouched": 0,
        "partly": 2,
        "hidden": 3,
        "warns": 5,
        "old-minor": 5,
        "widgets": 5,
        "bom": 5,
        "forged": 5,
    }.items(),
)
def test_honest_work_gets_its_marks_and_no_remark(results, student, score):
    result = results[student]
    assert (result.marks.score, result.marks.max_score) == (score, 5)
    assert (result.state, result.notes, result.sound) == ("graded", [], True)


class TestRepairs:
    """What is wrong with a notebook's shape costs no marks and is told."""

    def test_a_deleted_test_is_put_back(self, results):
        assert results["deleted"].marks.score == 5
        assert results["deleted"].notes == ['test "double-check" was deleted; put back']

    def test_a_duplicated_cell_is_named(self, results):
        assert results["duplicate"].marks.score == 5
        assert results["duplicate"].notes == [
            'answer "double" stood in cells 3, 4; cell 3 counts, the last one that was edited'
        ]

    def test_a_tag_does_not_skip_a_test(self, results):
        assert results["skips"].marks.score == 2
        assert results["skips"].notes == ["tag 'skip-execution' removed; every cell was run"]

    @pytest.mark.parametrize(("student", "name"), [("kernel", "'julia-1.9'"), ("no-kernel", "None")])
    def test_a_wrong_kernel_is_graded_but_someone_should_look(self, results, student, name):
        assert results[student].marks.score == 5
        assert results[student].notes == [f"kernel {name} put back to 'python3'"]
        assert not results[student].sound

    def test_the_graded_notebook_tells_what_was_repaired(self, course, results):
        notebook = nbformat.read(course.autograded(LAB, "deleted") / NAME, as_version=4)
        assert notebook.metadata.techlabs.repairs == results["deleted"].notes
        assert notebook.cells[0].source == f"**Repaired before grading**\n\n- {results['deleted'].notes[0]}"


@pytest.mark.parametrize(
    ("student", "says"),
    {
        "renamed": "the notebook is called '01_toy-Copy1.ipynb'; its content says that it is 01_toy.ipynb",
        "format-3": "notebook format 3 brought up to 4",
        "bad-cells": "cell 1 is damaged; left out",
        "no-date": "timestamp.txt holds no date; graded as handed in without one",
    }.items(),
)
def test_what_can_be_read_is_graded_and_the_repair_is_told(results, student, says):
    result = results[student]
    assert (result.marks.score, result.state) == (5, "graded")
    assert result.notes[0] == says


def test_cells_without_metadata_are_found_by_what_they_hold(results):
    assert results["no-metadata"].marks.score == 5
    assert results["no-metadata"].notes == [
        f'{kind} "{name}": lost nbgrader metadata put back'
        for name in ("double", "triple")
        for kind, name in (("answer", name), ("test", f"{name}-check"))
    ]


class TestLimits:
    """A cell may take 3 s here and a submission 8 s."""

    def test_a_loop_costs_its_own_marks_and_the_reason_names_limit_and_setting(self, course, results):
        assert results["loop"].marks.score == 3
        (note,) = results["loop"].notes
        assert note.startswith(
            'cell "double-check": Stopped after 3 s, the limit for one cell (Execute.timeout in'
        )
        notebook = nbformat.read(course.autograded(LAB, "loop") / NAME, as_version=4)
        (output,) = cell(notebook, "double-check").outputs
        assert "double was stopped in line 2 of double: while True: pass" in output.data["text/html"]
        assert note.split(": ", 1)[1] in output.data["text/html"]

    def test_loops_in_many_cells_end_with_the_budget(self, results):
        assert results["loops"].marks.score == 3
        notes = results["loops"].notes
        assert [note.split(",")[0] for note in notes[:2]] == [
            "cell 2: Stopped after 3 s",
            'cell "double-check": Stopped after 3 s',
        ]

    def test_code_that_ignores_the_interrupt_loses_its_own_marks(self, results):
        assert results["stubborn"].marks.score == 2
        (note,) = results["stubborn"].notes
        assert 'cell "triple-check": Stopped after 3 s' in note
        assert "could not be interrupted, so its kernel was ended" in note

    def test_a_dead_kernel_keeps_earlier_marks(self, results):
        assert results["dies"].marks.score == 2
        assert results["dies"].notes[0].startswith('cell "triple-check": The kernel died here')

    def test_a_cell_that_ends_the_kernel_does_not_take_the_next_exercise_along(self, course, results):
        assert (results["dies-first"].marks.score, results["dies-first"].state) == (3, "graded")
        (note,) = results["dies-first"].notes
        assert note.startswith('cell "double": The kernel died here: the code ended or crashed its process')
        notebook = nbformat.read(course.autograded(LAB, "dies-first") / NAME, as_version=4)
        (output,) = cell(notebook, "double-check").outputs
        assert output.data["text/plain"] == "0"
        assert "name &#x27;double&#x27; is not defined" in output.data["text/html"]


@pytest.mark.parametrize(
    ("student", "says"),
    {
        "empty": "01_toy.ipynb is empty; ask for a new submission",
        "not-json": "01_toy.ipynb is not JSON",
        "truncated": "01_toy.ipynb is not JSON",
        "latin-1": "01_toy.ipynb is not JSON",
        "a-list": "01_toy.ipynb is JSON but not a notebook",
        "no-notebook": "01_toy.ipynb is JSON but not a notebook",
        "format-5": "01_toy.ipynb is in notebook format 5, labs are in format 4",
        "nothing": "there is no 01_toy.ipynb; ask for a new submission",
    }.items(),
)
def test_what_cannot_be_graded_is_refused_in_one_line(results, student, says):
    result = results[student]
    assert (result.state, result.sound) == ("refused", False)
    assert (result.marks.score, result.marks.max_score) == (0, 5)
    (note,) = result.notes
    assert note.startswith(says)
    assert "\n" not in note
    assert f"\n{student}: {note}" in report(list(results.values()))


def test_a_refused_file_stays_as_it_is(course, results, solved):
    for student, (name, content) in damaged(solved).items():
        assert (course.submitted(LAB, student) / name).read_bytes() == content


def test_a_second_run_grades_nothing_anew_and_says_the_same(course, results):
    again = {result.student: result for result in grade(course, LAB)}
    for student, result in results.items():
        assert again[student].state == ("graded earlier" if result.state == "graded" else "refused")
        assert (again[student].marks, again[student].notes) == (result.marks, result.notes)


def test_a_newer_submission_that_cannot_be_graded_leaves_earlier_marks(course, results, solved):
    path = hand_in(course, "later") / NAME
    write_notebook(solved, path)
    assert grade(course, LAB, ["later"])[0].marks.score == 5
    path.write_text("")
    (result,) = grade(course, LAB, ["later"], force=True)
    assert (result.state, result.marks.score) == ("refused", 5)
    assert (course.autograded(LAB, "later") / NAME).is_file()
    write_notebook(solved, path)


def test_a_newer_submission_is_graded_anew(course, results, solved, untouched):
    path = hand_in(course, "newer") / NAME
    write_notebook(untouched, path)
    assert grade(course, LAB, ["newer"])[0].marks.score == 0
    write_notebook(solved, path)
    (result,) = grade(course, LAB, ["newer"])
    assert (result.state, result.marks.score) == ("graded", 5)


def test_when_nbgrader_fails_the_earlier_graded_notebook_stays(course, results, monkeypatch):
    before = (course.autograded(LAB, "perfect") / NAME).read_bytes()

    def fail(self, nb, resources):
        raise RuntimeError("the disk is full")

    monkeypatch.setattr("grader.repair.Repair.preprocess", fail)
    (result,) = grade(course, LAB, ["perfect"], force=True)
    assert (result.state, result.marks.score, result.sound) == ("failed", 5, False)
    assert "RuntimeError: the disk is full" in result.notes[0]
    assert (course.autograded(LAB, "perfect") / NAME).read_bytes() == before


def test_without_submissions_the_next_step_is_named(make_layout):
    empty = Course(make_layout())
    empty.release(LAB)
    with pytest.raises(
        CourseError, match=f"no submissions of {LAB} here; run `techlabs collect {LAB}` first"
    ):
        grade(empty, LAB)


def test_an_unknown_student_is_named(course):
    with pytest.raises(CourseError, match="no submission of 01_toy by nobody"):
        grade(course, LAB, ["nobody"])


def test_a_lab_that_was_never_released_is_named(course):
    with pytest.raises(
        CourseError, match="02_other is not in the gradebook; run `techlabs release 02_other`"
    ):
        grade(course, "02_other")


def test_nothing_but_the_bar_is_printed(course, results, solved, capfd):
    write_notebook(solved, hand_in(course, "quiet") / NAME)
    grade(course, LAB, ["quiet"])
    out, err = capfd.readouterr()
    assert out == ""
    assert "1/1" in err
    assert "arning" not in err
