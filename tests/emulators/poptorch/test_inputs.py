"""Arguments of a call."""

import collections

import pytest
import torch
from torch import nn

import poptorch


class Sum(nn.Module):
    """Adds up all tensors it is given, in whatever structure, and scales."""

    def forward(self, x, others=(), *more, scale=1.0, **named):
        leaves = torch.utils._pytree.tree_leaves((x, others, more, named))
        return sum(leaves) * scale


class Two(nn.Module):
    def forward(self, x, y=None, factor=2):
        return x * factor if y is None else x * factor + y


ONES = torch.ones(4)


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((ONES,), {}, 1),
        ((ONES, (ONES, [ONES, {"a": ONES}])), {}, 4),
        ((ONES, [ONES], ONES, ONES), {"scale": 2.0}, 8),
        ((), {"x": ONES, "others": {"a": ONES}, "extra": ONES}, 3),
        ((ONES, collections.OrderedDict(a=ONES, b=ONES)), {}, 3),
        ((ONES, collections.namedtuple("Pair", "a b")(ONES, ONES)), {}, 3),
    ],
)
def test_S6_structures(args, kwargs, expected):
    options = poptorch.Options().deviceIterations(2)
    model = poptorch.inferenceModel(Sum(), options)
    for _ in range(2):
        assert model(*args, **kwargs).tolist() == [expected] * 4


def test_S6_position_keyword_and_default_are_the_same_call():
    model = poptorch.inferenceModel(Two())
    for out in (model(ONES), model(x=ONES), model(ONES, None), model(ONES, factor=2), model(ONES, None, 2)):
        assert out.tolist() == [2] * 4


def test_S6_a_missing_argument_is_an_error():
    with pytest.raises(poptorch.Error, match="Mandatory parameter x missing"):
        poptorch.inferenceModel(Two())(factor=3)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((ONES, ONES, 2, 3), {}), ((ONES,), {"z": ONES}), ((ONES,), {"x": ONES})]
)
def test_S6_arguments_too_many_unknown_or_twice_are_assertions(args, kwargs):
    with pytest.raises(AssertionError, match="called wrongly"):
        poptorch.inferenceModel(Two())(*args, **kwargs)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (
            (ONES,),
            (torch.ones(5),),
            r"Shape mismatch for x: expected torch.Size\(\[4\]\) but got torch.Size\(\[5\]\).*drop_last",
        ),
        (
            (ONES,),
            (torch.ones(4, 1),),
            r"Shape mismatch for x: expected torch.Size\(\[4\]\) but got torch.Size\(\[4, 1\]\)",
        ),
        ((ONES,), (ONES.int(),), "Type mismatch for x: expected torch.float32 but got torch.int32"),
        ((ONES,), (3.0,), "Type mismatch for x: expected Tensor but got float"),
        ((ONES,), (ONES, ONES), "Type mismatch for y: expected NoneType but got Tensor"),
        ((ONES, None, 2), (ONES, None, 3), "Value mismatch for factor: expected 2 but got 3"),
        ((ONES, None, 2), (ONES, None, 2.0), "Type mismatch for factor: expected int but got float"),
    ],
)
def test_S7_later_calls_must_match_the_first(first, second, said):
    model = poptorch.inferenceModel(Two())
    model(*first)
    with pytest.raises(poptorch.Error, match=said) as refused:
        model(*second)
    assert "destroy()" in str(refused.value)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ((ONES, ONES), (ONES, ONES, ONES), "Length mismatch for others: expected 2 but got 3"),
        ({"a": ONES}, {"a": ONES, "z": ONES}, "Unexpected arguments: z. They are in others"),
        ({"a": ONES, "b": ONES}, {"a": ONES}, "Missing arguments: b. They are in others"),
        ([ONES, (ONES, ONES)], [ONES, (ONES, ONES.half())], r"mismatch for others\[1\]\[1\]"),
        ((ONES,), [ONES], "Type mismatch for others: expected tuple but got list"),
    ],
)
def test_S7_structures_must_match_too(first, second, said):
    model = poptorch.inferenceModel(Sum())
    model(ONES, first)
    with pytest.raises(poptorch.Error, match=said):
        model(ONES, second)


def test_S8_a_short_last_batch_is_an_error(classifier, batch):
    model = poptorch.trainingModel(classifier, poptorch.Options().deviceIterations(2))
    model(*batch(8))
    with pytest.raises(poptorch.Error, match="drop_last=True"):
        model(*batch(4))


def test_S8_zero_sized_tensors_are_refused():
    with pytest.raises(poptorch.Error, match=r"Zero-sized tensors are unsupported \(Got shape \[0, 3\]\)"):
        poptorch.inferenceModel(Two())(torch.ones(0, 3))


def test_S9_inputs_are_detached_and_made_contiguous_with_a_warning_each(caplog):
    model = poptorch.inferenceModel(Two())
    x = torch.ones(3, 4, requires_grad=True)
    for _ in range(2):
        assert not model(x.t()).requires_grad
    assert caplog.text.count("detached") == 1
    assert caplog.text.count("not contiguous") == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_S10_wide_and_brain_floats_become_float32(dtype, caplog):
    assert poptorch.inferenceModel(Two())(ONES.to(dtype)).dtype == torch.float32
    assert "float32" in caplog.text


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, torch.uint8, torch.int16, torch.int32])
def test_S10_other_types_stay(dtype):
    assert poptorch.inferenceModel(Two())(ONES.to(dtype)).dtype == dtype


def test_S10_unsupported_types_are_refused():
    with pytest.raises(poptorch.Error, match=r"Unsupported input type torch\.complex64"):
        poptorch.inferenceModel(Two())(ONES.to(torch.complex64))
