"""A damaged notebook is brought back into the shape of its lab, and each repair is told in one line."""

from copy import deepcopy

import pytest

from grader.repair import MasterCell, repair_cells

HIDDEN = "\n### BEGIN HIDDEN TESTS\nassert {0}(-7) == {1}\n### END HIDDEN TESTS"


@pytest.fixture
def master(untouched):
    """The toy lab as the gradebook holds it."""
    cells = {cell.id: cell.source for cell in untouched.cells}
    return [
        MasterCell("double", cells["double"], "1", None),
        MasterCell("double-check", cells["double-check"] + HIDDEN.format("double", -14), "2", 2.0),
        MasterCell("triple", cells["triple"], "3", None),
        MasterCell("triple-check", cells["triple-check"] + HIDDEN.format("triple", -21), "4", 3.0),
    ]


def cell(notebook, cell_id):
    return next(cell for cell in notebook.cells if cell.id == cell_id)


def graded(notebook):
    return [cell.metadata.nbgrader.grade_id for cell in notebook.cells if "nbgrader" in cell.metadata]


ALL = ["double", "double-check", "triple", "triple-check"]


@pytest.mark.parametrize("kind", ["untouched", "solved"])
def test_an_honest_submission_needs_no_repair(request, master, kind):
    notebook = request.getfixturevalue(kind)
    sources = [cell.source for cell in notebook.cells]
    assert repair_cells(notebook, master) == []
    assert cell(notebook, "double-check").source == master[1].source
    assert [cell.source for cell in notebook.cells if "check" not in cell.id or cell.id[-1] == "1"] == [
        source for source in sources if not source.startswith("lab.check")
    ]


def test_blanks_at_line_ends_are_no_edit(solved, master):
    cell(solved, "double-check").source += "  \n"
    assert repair_cells(solved, master) == []


def test_an_edited_test_gets_its_source_back(solved, master):
    cell(solved, "double-check").source = "pass"
    assert repair_cells(solved, master) == ['test "double-check": edited source put back']
    assert cell(solved, "double-check").source == master[1].source


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"points": 100}, "points"),
        ({"points": "lots"}, "points"),
        ({"grade": False}, "grade"),
        ({"solution": True, "locked": False}, "solution, locked"),
    ],
)
def test_flags_and_points_come_from_the_master(solved, master, change, says):
    cell(solved, "double-check").metadata.nbgrader.update(change)
    assert repair_cells(solved, master) == [f'test "double-check": {says} put back']
    assert cell(solved, "double-check").metadata.nbgrader == master[1].metadata


def test_an_old_schema_is_brought_up_to_date_without_words(solved, master):
    cell(solved, "double").metadata.nbgrader.schema_version = 1
    assert repair_cells(solved, master) == []
    assert cell(solved, "double").metadata.nbgrader.schema_version == 3


def test_a_test_turned_into_text_is_code_again(solved, master):
    broken = cell(solved, "double-check")
    broken.cell_type = "markdown"
    del broken["outputs"], broken["execution_count"]
    assert repair_cells(solved, master) == ["test \"double-check\": cell type 'markdown' put back"]
    assert cell(solved, "double-check").outputs == []


def test_a_deleted_test_comes_back_below_its_answer(solved, master):
    solved.cells.remove(cell(solved, "double-check"))
    assert repair_cells(solved, master) == ['test "double-check" was deleted; put back']
    assert graded(solved) == ALL


def test_with_all_tests_deleted_all_come_back_in_order(solved, master):
    solved.cells = [cell for cell in solved.cells if not cell.source.startswith("lab.check")]
    assert len(repair_cells(solved, master)) == 2
    assert graded(solved) == ALL


def test_with_no_graded_cell_left_tests_go_to_the_end(solved, master):
    solved.cells = solved.cells[:2]
    repairs = repair_cells(solved, master)
    assert repairs[0] == 'answer "double" is missing; its test ran on what the other cells define'
    assert graded(solved) == ["double-check", "triple-check"]


def test_a_deleted_answer_does_not_come_back_over_the_learners_own_code(solved, master):
    answer = cell(solved, "double")
    del answer.metadata["nbgrader"]
    answer.id = "mine"
    assert repair_cells(solved, master) == [
        'answer "double" is missing; its test ran on what the other cells define'
    ]
    assert cell(solved, "mine").source == "def double(x):\n    return 2 * x"


def test_lost_metadata_is_found_again_by_the_cells_id(solved, master):
    del cell(solved, "double").metadata["nbgrader"]
    cell(solved, "double-check").metadata["nbgrader"] = "gone"
    assert repair_cells(solved, master) == [
        'answer "double": lost nbgrader metadata put back',
        'test "double-check": lost nbgrader metadata put back',
    ]
    assert graded(solved) == ALL


def test_a_cell_of_an_unknown_id_is_not_graded(solved, master):
    extra = deepcopy(cell(solved, "double-check"))
    extra.id, extra.metadata.nbgrader.grade_id = "extra", "bonus"
    solved.cells.append(extra)
    assert repair_cells(solved, master) == ["cell with the unknown id 'bonus': not graded"]
    assert graded(solved) == ALL


def test_tags_that_change_how_a_cell_runs_are_named_and_none_is_left(solved, master):
    cell(solved, "double-check").metadata.tags = ["skip-execution"]
    cell(solved, "top-2").metadata.tags = ["nbval-check-output", "mine"]
    assert repair_cells(solved, master) == ["tag 'skip-execution' removed; every cell was run"]
    assert not any("tags" in cell.metadata for cell in solved.cells)


class TestDuplicates:
    """Several cells with one grade_id, as copying or splitting a cell leaves them."""

    def paste(self, notebook, cell_id, at, source=None):
        copy = deepcopy(cell(notebook, cell_id))
        copy.id = "pasted"
        copy.source = copy.source if source is None else source
        notebook.cells.insert(at, copy)

    def test_an_untouched_stub_below_the_answer_does_not_count_or_run(self, solved, untouched, master):
        self.paste(solved, "double", 3, cell(untouched, "double").source)
        assert repair_cells(solved, master) == [
            'answer "double" stood in cells 3, 4; cell 3 counts, the last one that was edited'
        ]
        assert graded(solved) == ALL
        assert len(solved.cells) == 7

    def test_of_two_edited_answers_the_last_counts_and_both_run(self, solved, master):
        self.paste(solved, "double", 2, "def double(x):\n    return x")
        assert repair_cells(solved, master) == [
            'answer "double" stood in cells 3, 4; cell 4 counts, the last one that was edited'
        ]
        assert "nbgrader" not in cell(solved, "pasted").metadata
        assert graded(solved) == ALL

    def test_the_halves_of_a_split_answer_both_run(self, solved, master):
        cell(solved, "double").source = "def double(x):\n    return twice(x)"
        self.paste(solved, "double", 2, "def twice(x):\n    return 2 * x")
        repair_cells(solved, master)
        assert [cell.id for cell in solved.cells][2:4] == ["pasted", "double"]

    def test_of_untouched_answers_the_first_counts(self, untouched, master):
        self.paste(untouched, "double", 3)
        assert repair_cells(untouched, master) == [
            'answer "double" stood in cells 3, 4; cell 3 counts, the first of equal ones'
        ]

    def test_of_equal_tests_the_one_below_the_answer_counts(self, solved, master):
        self.paste(solved, "double-check", 0)
        assert repair_cells(solved, master) == [
            'test "double-check" stood in cells 1, 5; cell 5 counts, in its place below the answer'
        ]
        assert graded(solved) == ALL

    def test_an_edited_copy_of_a_test_does_not_count(self, solved, master):
        self.paste(solved, "double-check", 3, "pass")
        assert repair_cells(solved, master) == [
            'test "double-check" stood in cells 4, 5; cell 5 counts, in its place below the answer'
        ]

    def test_every_graded_cell_twice(self, solved, master):
        for index, cell_id in ((2, "double"), (4, "double-check"), (7, "triple"), (9, "triple-check")):
            self.paste(solved, cell_id, index, "pass")
        assert len(repair_cells(solved, master)) == 4
        assert graded(solved) == ALL
        assert cell(solved, "double").metadata.nbgrader.grade_id == "double"
