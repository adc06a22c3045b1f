"""Many submissions at a time, and runs that were cut short."""

import os
import signal
import subprocess
import sys
import time

import pytest

from grader.build import write_notebook
from grader.grade import grade
from grader.workers import each

LAB = "01_toy"

# pytest hears what the settings silence: nbgrader's gradebook, and an argument that nbgrader misspells.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Object of type .* not in session"),
    pytest.mark.filterwarnings("ignore:Passing unrecognized arguments:DeprecationWarning"),
]

GRADE = """\
import sys
from pathlib import Path
from grader.course import Course
from grader.grade import grade
from grader.layout import Layout
grade(Course(Layout.find(Path(sys.argv[1]), course=Path(sys.argv[2]))), "01_toy", jobs=2)
"""


def test_every_item_comes_back_with_its_outcome():
    assert sorted(each(lambda number: number * 2, range(7), jobs=3)) == [(n, 2 * n) for n in range(7)]


def test_a_process_that_dies_takes_no_other_along():
    outcomes = dict(each(lambda number: os._exit(1) if number == 2 else number, range(5), jobs=2))
    assert outcomes == {0: 0, 1: 1, 2: None, 3: 3, 4: 4}


@pytest.fixture(scope="module")
def students(released_course, toy_notebook):
    names = [f"s{number}" for number in range(4)]
    for name in names:
        write_notebook(toy_notebook, released_course.submitted(LAB, name) / f"{LAB}.ipynb")
    return names


def test_a_run_that_was_killed_is_finished_by_the_next(released_course, students):
    layout = released_course.layout
    process = subprocess.Popen(
        [sys.executable, "-c", GRADE, str(layout.root), str(layout.course)], stderr=subprocess.DEVNULL
    )
    first = released_course.autograded(LAB, students[0]) / f"{LAB}.ipynb"
    while process.poll() is None and not first.exists():
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    results = grade(released_course, LAB, jobs=2)
    assert [(result.student, result.marks.score, result.marks.max_score) for result in results] == [
        (name, 0, 5) for name in students
    ]
    with released_course.gradebook() as gradebook:
        submissions = gradebook.assignment_submissions(LAB)
        assert sorted(each.student.id for each in submissions) == students
        grades = [grade for each in submissions for grade in each.notebooks[0].grades]
        assert [grade.auto_score for grade in grades] == [0] * 2 * len(students)
    assert {result.state for result in grade(released_course, LAB, jobs=2)} == {"graded earlier"}
