"""A check gives one of four answers, and says why."""

import pytest
import torch

from techlabs.exercise import Exercise, Outcome, Wrong, cause_of


class Double(Exercise):
    name = "x1"
    title = "twice the number"
    hints = ("a", "b", "c")
    cases = ({"number": 2}, {"number": 5})

    def observe(self, answer, number):
        return {"result": answer(number)}

    def judge(self, seen, number):
        if seen["result"] != 2 * number:
            raise Wrong(f"{2 * number}", f"{seen['result']}", "a square isn't a double.")


def stub(number):
    raise NotImplementedError("your code here")


def test_a_right_answer_passes_all_cases():
    verdict = Double().verdict(lambda number: 2 * number)
    assert verdict.outcome is Outcome.PASSED
    assert repr(verdict) == "x1 passed: twice the number"


def test_a_wrong_answer_is_told_what_was_expected_and_seen_and_the_usual_cause():
    verdict = Double().verdict(lambda number: number**2)
    assert verdict.outcome is Outcome.WRONG
    assert verdict.reasons == (
        ("expected", "10"),
        ("seen", "25"),
        ("usual cause", "a square isn't a double."),
    )


def test_an_untouched_stub_is_not_attempted_rather_than_wrong():
    verdict = Double().verdict(stub)
    assert verdict.outcome is Outcome.NOT_ATTEMPTED


def test_an_exception_is_reported_with_its_message_its_line_and_the_arguments():
    cell = compile("def halve(number):\n    return number / 0\n", "<cell>", "exec")
    names = {}
    exec(cell, names)
    verdict = Double().verdict(names["halve"])
    assert verdict.outcome is Outcome.ERROR
    assert dict(verdict.reasons) == {
        "message": "ZeroDivisionError: division by zero",
        "where": "line 2 of halve",
        "called with": "number=2",
    }


def test_hidden_cases_come_after_the_visible_ones():
    verdict = Double().verdict(lambda number: 2 * number if number < 100 else 0, hidden=[{"number": 100}])
    assert ("expected", "200") in verdict.reasons


def test_a_check_leaves_the_random_numbers_of_the_learner_alone():
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    Double().verdict(lambda number: torch.manual_seed(0) and 2 * number)
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize("answer", [lambda number: "<script>alert(1)</script>"])
def test_the_page_never_runs_what_an_answer_returned(answer):
    assert "<script>" not in Double().verdict(answer)._repr_html_()


@pytest.mark.parametrize(
    ("number", "said"), [(7.0, "the sum"), (12, "the product"), (5, "neither"), (None, "neither")]
)
def test_a_wrong_number_is_traced_to_the_formula_that_gives_it(number, said):
    assert cause_of(number, {7: "the sum", 12: "the product"}, 1e-6, "neither") == said
