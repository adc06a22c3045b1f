"""The course in little: six invented submissions of one lab."""

import pytest

from grader.demo import demo
from grader.grade import report

# pytest hears what the settings silence: nbgrader's gradebook, and an argument that nbgrader misspells.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Object of type .* not in session"),
    pytest.mark.filterwarnings("ignore:Passing unrecognized arguments:DeprecationWarning"),
]


def test_the_six_get_the_right_marks_and_remarks(make_layout):
    layout = make_layout()
    results = {result.student: result for result in demo(layout.root, "01_toy", timeout=3)}
    assert {student: result.marks.score for student, result in results.items()} == {
        "deleted-test": 5,
        "duplicated-cell": 5,
        "endless-loop": 2,
        "partly-right": 2,
        "perfect": 5,
        "untouched": 0,
    }
    assert {result.marks.max_score for result in results.values()} == {5}
    said = report(list(results.values()))
    assert 'deleted-test: test "double-check" was deleted; put back' in said
    assert 'duplicated-cell: answer "double" stood in cells 3, 4; cell 3 counts' in said
    assert 'endless-loop: cell "triple-check": Stopped after 3 s' in said
    feedback = layout.root / "build" / "demo" / "feedback"
    assert len(list(feedback.glob("*/01_toy/01_toy.html"))) == 6
    assert not layout.course.exists()
