"""What a call returns."""

import collections
import copy
import io

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch
from poptorch import OutputMode


class Echo(nn.Module):
    def forward(self, x):
        return x * 2, x.sum()


def run(mode, period=None, iterations=6, replicas=1):
    options = (
        poptorch.Options().deviceIterations(iterations).replicationFactor(replicas).outputMode(mode, period)
    )
    rows, total = poptorch.inferenceModel(Echo(), options)(torch.arange(float(iterations * replicas)))
    return rows.tolist(), total.tolist()


def test_S12_inference_returns_all_and_training_the_last(classifier, batch):
    options = poptorch.Options().deviceIterations(3)
    training = poptorch.trainingModel(classifier, options)
    inference = poptorch.inferenceModel(classifier, options)
    assert training(*batch(6))[0].shape == (2, 3)
    assert inference(batch(6)[0]).shape == (6, 3)
    assert training.options.output_mode == OutputMode.Final
    assert inference.options.output_mode == OutputMode.All
    assert options.output_mode == OutputMode.Default


def test_S13_all_returns_every_micro_batch():
    assert run(OutputMode.All)[0] == [0, 2, 4, 6, 8, 10]


def test_S13_every_n_returns_every_period():
    assert run(OutputMode.EveryN, 2)[0] == [2, 6, 10]
    assert run(OutputMode.EveryN, 3, replicas=2)[0] == [8, 10, 20, 22]


def test_S13_final_returns_one_per_replica():
    assert run(OutputMode.Final)[0] == [10]
    assert run(OutputMode.Final, replicas=2)[0] == [20, 22]


def test_S13_sum_returns_one_sum_per_replica():
    assert run(OutputMode.Sum)[0] == [30]
    assert run(OutputMode.Sum, replicas=2)[0] == [60, 72]


def test_S5_several_scalars_make_a_vector_and_one_stays_a_scalar():
    assert run(OutputMode.All, iterations=3)[1] == [0, 1, 2]
    assert run(OutputMode.Final, iterations=3)[1] == 2
    assert run(OutputMode.Final, iterations=3, replicas=2)[1] == [4, 5]


def test_S14_structure_is_that_of_forward():
    Pair = collections.namedtuple("Pair", "left right")

    class Nested(nn.Module):
        def forward(self, x):
            return {"pair": Pair(x + 1, [x + 2, "text", None]), "many": (x, (3,))}

    out = poptorch.inferenceModel(Nested())(torch.zeros(2))
    assert out["pair"].left.tolist() == [1, 1]
    assert out["pair"].right[0].tolist() == [2, 2]
    assert out["pair"].right[1:] == ["text", None]
    assert out["many"][1] == (3,)


def test_S15_backward_on_an_output_is_refused(classifier, batch):
    _, loss = poptorch.trainingModel(classifier)(*batch(4))
    with pytest.raises(poptorch.Error, match="need not be"):
        loss.backward()


def test_S15_otherwise_an_output_is_an_ordinary_tensor(classifier, batch):
    _, loss = poptorch.trainingModel(classifier)(*batch(4))
    assert repr(loss).startswith("tensor(")
    assert f"{loss:.1f}" == f"{loss.item():.1f}"
    assert type(loss + 1) is torch.Tensor
    assert type(copy.deepcopy(loss)) is torch.Tensor
    file = io.BytesIO()
    torch.save(loss, file)
    file.seek(0)
    assert type(torch.load(file)) is torch.Tensor


def test_S10_long_and_double_come_back_narrowed():
    class Wide(nn.Module):
        def forward(self, x):
            return x.argmax(1), x.double()

    index, value = poptorch.inferenceModel(Wide())(torch.randn(3, 4))
    assert (index.dtype, value.dtype) == (torch.int32, torch.float32)


def test_returned_weights_and_inputs_are_snapshots():
    class Returns(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            loss = F.mse_loss(self.weight * x, torch.zeros(2))
            return self.weight.view(2), x, loss

    x = torch.ones(2)
    weight, same, _ = poptorch.trainingModel(Returns())(x)
    x.zero_()
    assert same.tolist() == [1, 1]
    assert weight.tolist() != []


def test_S14_tensors_that_never_were_on_the_device_come_back_as_traced(caplog):
    constant = torch.tensor([1, 2])

    class Mixed(nn.Module):
        def forward(self, x):
            return x + 1, [constant, constant + 1]

    model = poptorch.inferenceModel(Mixed())
    model.compile(torch.ones(1))
    assert "Output expected to be on the IPU but is on cpu" in caplog.text
    constant += 10
    out, (first, second) = model(torch.ones(1))
    assert (out.tolist(), first.tolist(), second.tolist()) == ([2], [1, 2], [2, 3])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_S11_inputs_changed_in_place_are_written_back(dtype):
    class Counts(nn.Module):
        def forward(self, x):
            x += 1
            return x * 2

    given = torch.zeros(4, dtype=dtype)
    model = poptorch.inferenceModel(Counts(), poptorch.Options().deviceIterations(2))
    assert model(given).tolist() == [2] * 4
    assert given.tolist() == [1] * 4
