"""What the checks say about sample answers, right and wrong: the verdict and the reason, for each."""

import re

import pytest
from IPython.core.interactiveshell import InteractiveShell

from grader.build import lab_names
from grader.layout import Layout
from grader.samples import samples_of
from grader.source import read_source
from techlabs.exercise import Outcome

LAYOUT = Layout.find()
LABS = lab_names(LAYOUT)
SAMPLES = [
    pytest.param(lab, index, sample, id=f"{lab}-{sample.exercise}-{index}-{sample.outcome.value}")
    for lab in LABS
    for index, sample in enumerate(samples_of(LAYOUT.solutions / lab))
]


@pytest.fixture(scope="module")
def answered():
    """Names that the code above each answer cell defines, by lab and exercise; every lab runs once."""
    return {}


def names_before(answered, lab, exercise):
    if (lab, exercise) not in answered:
        shell = InteractiveShell()
        for cell in read_source(LAYOUT.solutions / lab / f"{lab}.py").cells:
            if "answer" in cell.options:
                answered[lab, cell.options["answer"]] = dict(shell.user_ns)
            if cell.kind == "code" and "check" not in cell.options:
                shell.run_cell(cell.source).raise_error()
    return dict(answered[lab, exercise])


def check_line(lab, exercise):
    """The visible check and the hidden one, as the lab's check cell calls them."""
    for cell in read_source(LAYOUT.solutions / lab / f"{lab}.py").cells:
        if cell.options.get("check") == exercise:
            return re.search(r"lab\.check\((.*)\)", cell.source)[1]
    raise LookupError(f"{lab} has no check {exercise}")


@pytest.mark.parametrize(("lab", "index", "sample"), SAMPLES)
def test_a_sample_answer_gets_its_verdict_and_its_reason(answered, lab, index, sample):
    names = names_before(answered, lab, sample.exercise)
    exec(compile(sample.source, f"<{lab} {sample.exercise} {index}>", "exec"), names)
    verdict = eval(f"lab.check({check_line(lab, sample.exercise)})", names)
    assert verdict.outcome is sample.outcome, verdict
    assert sample.says in repr(verdict)
    if sample.outcome is Outcome.PASSED:
        eval(f"lab.grade({check_line(lab, sample.exercise)})", names)


def test_every_exercise_has_two_right_and_three_wrong_samples(lab):
    samples = samples_of(LAYOUT.solutions / lab)
    checks = [
        cell.options["check"]
        for cell in read_source(LAYOUT.solutions / lab / f"{lab}.py").cells
        if "check" in cell.options
    ]
    for exercise in checks:
        outcomes = [sample.outcome for sample in samples if sample.exercise == exercise]
        assert outcomes.count(Outcome.PASSED) >= 2, exercise
        assert len(outcomes) - outcomes.count(Outcome.PASSED) >= 3, exercise
