"""Release, submission and collection: what nbgrader would lose or leave unsaid."""

import re

import nbformat
import pytest

from grader.build import BuildError, write_notebook
from grader.course import Course, CourseError
from grader.grade import grade

LAB = "01_toy"

# pytest hears what the settings silence: nbgrader's gradebook, and an argument that nbgrader misspells.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Object of type .* not in session"),
    pytest.mark.filterwarnings("ignore:Passing unrecognized arguments:DeprecationWarning"),
]


@pytest.fixture
def course(make_layout):
    course = Course(make_layout())
    course.release(LAB)
    return course


@pytest.fixture
def graded(course, solved):
    """The course with one graded submission."""
    write_notebook(solved, course.submitted(LAB, "ana") / f"{LAB}.ipynb")
    grade(course, LAB)
    return course


def change_source(course, old, new):
    path = course.layout.solutions / LAB / f"{LAB}.py"
    path.write_text(path.read_text().replace(old, new))


def test_a_lab_can_be_released_again(course):
    assert course.release(LAB) == [f"built labs/{LAB}", f"released {LAB} to {course.layout.exchange}"]


def test_removing_a_check_after_submissions_is_refused_and_labs_stay(graded):
    change_source(graded, '"triple"', '"thrice"')
    with pytest.raises(
        CourseError, match=r"were added, removed or renamed, but .* has submissions with the old"
    ):
        graded.release(LAB)
    assert '"triple"' in (graded.layout.labs / LAB / f"{LAB}.ipynb").read_text()
    assert graded.marks(LAB, "ana").score == 5


def test_changed_points_are_announced_and_a_forced_run_brings_marks_up_to_date(graded):
    change_source(graded, "points=2", "points=4")
    assert graded.release(LAB)[1] == (
        f"points of double-check changed: `techlabs grade {LAB} --force` renews the marks"
    )
    (result,) = grade(graded, LAB, force=True)
    assert (result.marks.score, result.marks.max_score) == (7, 7)


def test_a_renamed_notebook_is_refused_at_submission(course):
    folder = course.layout.labs / LAB
    (folder / f"{LAB}.ipynb").rename(folder / "mine.ipynb")
    with pytest.raises(
        CourseError, match=rf"holds mine\.ipynb; the notebook to submit must be called {LAB}\.ipynb"
    ):
        course.submit(LAB, "ana")


@pytest.mark.parametrize("name", ["../ana", "a/b", "a+b", "*", ".ana"])
def test_a_student_is_one_folder(course, name):
    with pytest.raises(CourseError, match="a name has no"):
        course.submit(LAB, name)


def test_an_unknown_lab_is_not_released(course):
    with pytest.raises(BuildError, match="there is 01_toy"):
        course.release("99_none")


def test_collect_names_who_is_new_and_takes_newer_work(course, solved):
    assert course.submit(LAB, "ana") == "ana"
    course.submit(LAB, "bob")
    assert course.collect(LAB) == ["ana", "bob"]
    assert course.collect(LAB) == []
    write_notebook(solved, course.layout.labs / LAB / f"{LAB}.ipynb")
    course.submit(LAB, "bob")
    assert course.collect(LAB) == ["bob"]
    collected = nbformat.read(course.submitted(LAB, "bob") / f"{LAB}.ipynb", as_version=4)
    assert [cell.source for cell in collected.cells] == [cell.source for cell in solved.cells]


def test_feedback_of_work_that_came_by_hand_stays_here_and_says_so(graded):
    ((student, problem),) = graded.feedback(LAB)
    assert student == "ana"
    assert problem.endswith("the submission didn't come through the exchange")
    assert (graded.layout.course / "feedback" / "ana" / LAB / f"{LAB}.html").is_file()


def test_repairs_stand_on_top_of_the_feedback(graded, solved):
    solved.cells = [cell for cell in solved.cells if cell.id != "double-check"]
    write_notebook(solved, graded.submitted(LAB, "bob") / f"{LAB}.ipynb")
    grade(graded, LAB, ["bob"])
    dict(graded.feedback(LAB))
    page = (graded.layout.course / "feedback" / "bob" / LAB / f"{LAB}.html").read_text()
    assert 'test "double-check" was deleted; put back' in page.replace("&quot;", '"')


def test_no_script_of_a_learner_runs_in_the_feedback(graded, solved):
    attack = "<script>alert(1)</script><img src=x onerror=alert(2)><b>bold</b>"
    solved.cells[0].source += f"\n\n{attack} [a](javascript:alert(3))"
    solved.cells[1].source += f"\nfrom IPython.display import HTML, display\ndisplay(HTML({attack!r}))"
    write_notebook(solved, graded.submitted(LAB, "eve") / f"{LAB}.ipynb")
    assert grade(graded, LAB, ["eve"])[0].marks.score == 5
    dict(graded.feedback(LAB))
    page = (graded.layout.course / "feedback" / "eve" / LAB / f"{LAB}.html").read_text()
    # Its source is shown, as text.
    active = re.findall(r"<script>alert|<img[^>]*onerror|href=.javascript", page)
    assert active == []
    assert "<b>bold</b>" in page
    assert "double passed" in page
