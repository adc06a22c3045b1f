"""The demo course: six invented submissions get the right marks, and say what happened.

One pair of labs goes the whole way here; of every other lab, the other tests here run the untouched copy, the
solution, and each sample answer with its hidden cases.
"""

import shutil

import pytest

from grader.demo import demo
from grader.layout import Layout

# Seconds for one cell. The slowest honest cell takes about 4 s, and the loop costs the whole limit.
TIMEOUT = 20


@pytest.fixture(params=["11_gpu_first", "21_ipu_first"])
def lab(request):
    return request.param


@pytest.fixture(scope="module")
def courses(tmp_path_factory):
    """The results of the demo course of each lab, by lab; made once."""
    root = tmp_path_factory.mktemp("demo")
    shutil.copytree(Layout.find().solutions, root / "solutions")
    results = {}

    def course(lab):
        if lab not in results:
            graded = demo(root, lab, timeout=TIMEOUT)
            feedback = (root / "build" / "demo" / "feedback").glob(f"*/{lab}/{lab}.html")
            pages = {path.parts[-3]: path.read_text() for path in feedback}
            results[lab] = {result.student: result for result in graded}, pages
        return results[lab]

    return course


def test_the_six_get_the_marks_they_deserve(courses, lab):
    results, _ = courses(lab)
    assert {student: result.marks.score for student, result in results.items()} == {
        "perfect": 10,
        "partly-right": 5,
        "untouched": 0,
        "endless-loop": 7,
        "deleted-test": 10,
        "duplicated-cell": 10,
    }
    assert {result.marks.max_score for result in results.values()} == {10}


def test_what_was_restored_named_or_stopped_is_said(courses, lab):
    results, _ = courses(lab)
    notes = {student: " ".join(result.notes) for student, result in results.items()}
    assert 'test "x1-check" was deleted; put back' in notes["deleted-test"]
    assert 'answer "x1" stood in cells' in notes["duplicated-cell"]
    assert f'cell "x4-check": Stopped after {TIMEOUT} s' in notes["endless-loop"]
    assert all(notes[student] == "" for student in ("perfect", "partly-right", "untouched"))


def test_feedback_gives_reasons_and_never_the_hidden_cases(courses, lab):
    _, pages = courses(lab)
    assert len(pages) == 6
    assert "x4 not attempted" in pages["untouched"]
    assert "x4 was stopped in line" in pages["endless-loop"]
    hidden = (Layout.find().solutions / lab / "hidden.py").read_text()
    for student, page in pages.items():
        assert "CASES" not in page, student
        for line in hidden.splitlines()[2:]:
            assert line.strip().rstrip(",") not in page or len(line.strip()) < 12, (student, line)
