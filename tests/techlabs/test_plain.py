"""Plain values go through text and come back; everything else comes back as the name of its class."""

import math

import numpy as np
import pytest
import torch

from techlabs import plain
from techlabs.plain import Malformed, Other, dump, load


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 0, -7, 10**30, 1.5, "text", "", [1, [2.5, "x"]], {"a": 1, 2: [3]}, math.inf),
        *({"tensor": "a key"}, {}, []),
    ],
)
def test_plain_values_come_back_equal_and_of_the_same_kind(value):
    assert load(dump(value)) == value
    assert type(load(dump(value))) is type(value)


def test_nan_comes_back_as_nan():
    assert math.isnan(load(dump(math.nan)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_tensors_keep_shape_type_and_values(dtype, shape):
    tensor = torch.ones(shape).to(dtype)
    back = load(dump(torch.nn.Parameter(tensor) if dtype.is_floating_point else tensor))
    assert back.dtype is dtype
    assert torch.equal(back, tensor)


def test_arrays_come_back_as_arrays():
    array = np.arange(6, dtype="float32").reshape(2, 3).T
    back = load(dump(array))
    assert isinstance(back, np.ndarray)
    assert np.array_equal(back, array)


def test_a_tuple_becomes_a_list_and_a_subclass_its_base():
    class Five(int):
        def __eq__(self, other):
            return True

    assert load(dump((1, 2))) == [1, 2]
    assert type(load(dump(Five(5)))) is int
    assert load(dump(Five(5))) != 6


def test_any_other_object_is_known_by_its_class_alone():
    assert load(dump(torch.nn.ReLU())) == Other("torch.nn.modules.activation.ReLU")
    assert load(dump(np.int64(3))) == Other("numpy.int64")


@pytest.mark.parametrize("value", ["x" * (plain.MAX_CHARACTERS + 1), [0] * (plain.MAX_ITEMS + 1)])
def test_what_is_too_large_is_refused_where_it_is_written(value):
    with pytest.raises(Malformed):
        dump(value)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "{",
            "[1",
            '{"a": 1}',
            '{"float": "1"}',
            '{"tensor": 1}',
            '{"tensor": ["float32", [2], "AAAA"]}',
        ),
        *('{"tensor": ["object", [1], "AAAA"]}', '{"array": ["float32", [-1], ""]}', '{"dict": [[[], 1]]}'),
        *(
            "[" * 100_000,
            "[" * 20 + "]" * 20,
            "1" * 5000,
            '{"other": 5}',
            '{"refuse": 1}',
            '{"tensor":1,"float":2}',
        ),
    ],
)
def test_a_text_that_is_no_plain_value_is_malformed_and_nothing_worse(text):
    with pytest.raises(Malformed):
        load(text)
