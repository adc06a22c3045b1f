"""A lab's helper: checks, hints, predictions, results."""

import pytest

from techlabs import Lab
from techlabs.lab import CheckFailed


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setenv("TECHLABS_HOME", str(tmp_path))
    return Lab("gpu_first")


def right(side, channels):
    return channels * (side // 4) ** 2


def only_visible_cases(side, channels):
    return {(8, 32): 128, (20, 6): 150, (13, 5): 45}[side, channels]


def test_an_unknown_lab_is_refused():
    with pytest.raises(ValueError, match="No lab 'first'"):
        Lab("first")


def test_an_unknown_exercise_names_the_ones_there_are(lab):
    with pytest.raises(ValueError, match="it has x1, x2, x3, x4"):
        lab.check("x9", right)


def test_grading_runs_hidden_cases_too(lab):
    assert lab.check("x3", only_visible_cases).passed
    with pytest.raises(CheckFailed, match="x3 error"):
        lab.grade("x3", only_visible_cases)


def test_a_failed_mark_shows_its_reason_and_no_code(lab):
    with pytest.raises(CheckFailed) as failed:
        lab.grade("x3", lambda side, channels: 1)
    (shown,) = failed.value._render_traceback_()
    assert "usual cause" in shown and ".py" not in shown


def test_an_answer_that_is_interrupted_shows_its_own_line_alone(lab):
    def endless(side, channels):
        raise KeyboardInterrupt

    with pytest.raises(CheckFailed, match="x3 was stopped in"):
        lab.grade("x3", endless)


def test_grading_without_the_hidden_cases_is_an_error_and_not_a_pass(lab, tmp_path, monkeypatch):
    monkeypatch.setenv("TECHLABS_ROOT", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="hidden cases"):
        lab.grade("x3", right)


def test_hints_have_three_levels(lab):
    texts = {repr(lab.hint("x3", level)) for level in (1, 2, 3)}
    assert len(texts) == 3
    assert "has hints 1 to 3" in repr(lab.hint("x3", 4))


def test_the_solution_is_shown_after_an_attempt_only(lab):
    assert "Try x3 first" in repr(lab.solution("x3"))
    lab.check("x3", lambda side, channels: 0)
    shown = repr(lab.solution("x3"))
    assert "return channels * side * side" in shown and "###" not in shown


def test_an_untouched_answer_is_no_attempt(lab):
    def stub(side, channels):
        raise NotImplementedError("your code here")

    lab.check("x3", stub)
    assert "Try x3 first" in repr(lab.solution("x3"))


def test_the_cell_after_a_prediction_waits_for_it(lab, capsys):
    assert not lab.predicted("calls")
    assert "Waiting for your prediction" in capsys.readouterr().out
    lab.predict("calls", "how many?", choices=[22, 23], answer=23)
    assert lab.predicted("calls")
    assert "you predicted 23" in repr(lab.compare("calls", actual=22))


def test_grading_never_waits(lab, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert lab.predicted("calls")


def test_nbgraders_validate_fails_on_an_answer_that_is_not_right(lab, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    with pytest.raises(CheckFailed):
        lab.check("x3", lambda side, channels: 0)
    assert lab.check("x3", right).passed


def test_a_prediction_outside_the_choices_is_not_kept(lab, capsys):
    lab.predict("calls", "how many?", choices=[22, 23], answer=7)
    assert "7 isn't one of 22, 23" in capsys.readouterr().out
    assert not lab.predicted("calls")


def test_a_cell_that_needs_an_exercise_waits_until_it_passed_in_this_session(lab, capsys):
    assert not lab.passed("x3")
    assert "waits for x3" in capsys.readouterr().out
    lab.check("x3", right)
    assert lab.passed("x3")
    assert not Lab("gpu_first").passed("x3")


def test_machines_are_compared_by_what_their_labs_kept(lab):
    lab.keep(test_accuracy=0.97)
    table = repr(lab.compare_machines("gpu_first", "ipu_first"))
    assert "0.97" in table and "not run yet" in table


def test_a_comparison_without_results_says_so(lab):
    assert "kept no results" in repr(lab.compare_machines("gpu_first", "ipu_first"))


def test_an_exit_slip_names_what_is_still_open(lab):
    assert "open_question" in repr(lab.exit_slip(clearest="shapes", open_question=""))
    assert "Kept" in repr(lab.exit_slip(clearest="", open_question="why?"))
