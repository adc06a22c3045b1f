"""What a kernel says can be anything: no judge passes a forged observation, or fails with an exception."""

import math

import pytest
import torch
import torch.nn.functional as F

from techlabs import plain
from techlabs.exercise import Outcome
from techlabs.exercises import gpu_first, ipu_first


class WithLoss(gpu_first.DigitsNet):
    def forward(self, images, labels=None):
        scores = super().forward(images)
        return scores if labels is None else (scores, F.cross_entropy(scores, labels))


def fill_up(images, samples_per_call):
    rows = len(images) + -len(images) % samples_per_call
    return images[torch.arange(rows) % len(images)]


ANSWERS = [
    (gpu_first.BuildModel(), gpu_first.DigitsNet),
    (gpu_first.ReadTheError(), lambda side, channels: channels * (side // 2 // 2) ** 2),
    (ipu_first.ReturnLoss(), WithLoss),
    (
        ipu_first.ReadTheError(),
        lambda images, n: images[torch.arange(len(images) + -len(images) % n) % len(images)],
    ),
]
ALL = [*gpu_first.EXERCISES, *ipu_first.EXERCISES]
JUNK = [
    *(None, {}, [], "passed", 5),
    *({"kind": "Tensor"}, {"kind": "poptorch.DataLoader"}, {"claimed": 1.0, "weights": {}}),
]


@pytest.mark.parametrize("exercise", ALL, ids=lambda each: f"{type(each).__module__[18:]}-{each.name}")
@pytest.mark.parametrize("seen", JUNK, ids=str)
def test_an_observation_of_the_wrong_kind_is_a_wrong_answer(exercise, seen):
    case = exercise.cases[0]
    assert exercise.outcome_of(plain.dump({"seen": seen}), case)[0] is Outcome.WRONG


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "null", '{"dict":[["passed",true]]}', '{"dict":[["seen",1],']
)
def test_a_text_that_is_no_observation_is_a_wrong_answer(text):
    exercise = gpu_first.ReadTheError()
    assert exercise.outcome_of(text, exercise.cases[0])[0] is Outcome.WRONG


@pytest.mark.parametrize(("exercise", "answer"), ANSWERS, ids=lambda each: getattr(each, "name", ""))
def test_no_number_of_an_observation_can_be_replaced(exercise, answer):
    case = exercise.cases[0]
    honest = plain.load(exercise.observed(answer, case))["seen"]
    assert exercise.outcome_of(plain.dump({"seen": honest}), case)[0] is Outcome.PASSED
    for key, value in honest.items():
        if isinstance(value, torch.Tensor):
            forgeries = [torch.full_like(value, math.nan), torch.zeros_like(value), value + 1]
        elif isinstance(value, int | float):
            forgeries = [math.nan, math.inf, True, 0]
        else:
            continue
        for forged in forgeries:
            outcome, _ = exercise.outcome_of(plain.dump({"seen": {**honest, key: forged}}), case)
            assert outcome is Outcome.WRONG, (key, forged)


@pytest.mark.parametrize("claimed", [1.0, math.nan, None, 0.1])
@pytest.mark.parametrize("exercise", [gpu_first.TrainAndTest(), ipu_first.TrainAndTest()], ids=["gpu", "ipu"])
def test_a_claim_of_accuracy_does_not_stand_in_for_trained_weights(exercise, claimed):
    seen = {
        "result": ["accuracy", "trainer", "tester"],
        "claimed": claimed,
        "weights": gpu_first.weights(0),
        "calls": 10,
        "tested": 10,
        "places": ["cpu"],
        "left in training": False,
        "attached": {"trainer": False, "tester": False},
    }
    outcome, reasons = exercise.outcome_of(plain.dump({"seen": seen}), exercise.cases[0])
    assert outcome is Outcome.WRONG
    assert dict(reasons)["expected"] == "test accuracy 0.93 or more"
