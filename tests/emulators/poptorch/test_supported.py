"""Operations, and uses of them, that the device lacks."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch


class Calls(nn.Module):
    def __init__(self, compute):
        super().__init__()
        self.compute = compute
        if isinstance(compute, nn.Module):
            self.add_module("layer", compute)

    def forward(self, *inputs):
        return self.compute(*inputs)


def refuse(compute, *inputs):
    with pytest.raises(poptorch.Error) as refused:
        poptorch.inferenceModel(Calls(compute)).compile(*inputs)
    return refused.value


def test_S45_an_operation_the_device_lacks_is_named_with_its_line():
    error = refuse(lambda x: torch.linalg.inv(x) + 1, torch.eye(3))
    assert "Unsupported ops found in compiled model: [aten::linalg_inv" in error.message
    assert error.location.startswith(__file__)


LABELS = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("compute", "inputs", "said"),
    [
        (lambda x, y: F.cross_entropy(x, y, x[0]), (torch.rand(2, 3), LABELS), "weight argument"),
        (lambda x, y: F.nll_loss(x, y, x[0]), (torch.rand(2, 3), LABELS), "weight argument"),
        (nn.Embedding(4, 2, padding_idx=0), (LABELS,), "padding_idx"),
        (lambda x: x.topk(2, sorted=False), (torch.rand(3),), "sorted=False"),
        (nn.MaxPool2d(2, return_indices=True), (torch.rand(1, 1, 4, 4),), "return_indices"),
        (nn.BatchNorm1d(3, affine=False), (torch.rand(2, 3),), "affine=True"),
        (nn.LayerNorm(3, elementwise_affine=False), (torch.rand(2, 3),), "affine=True"),
        (nn.GroupNorm(1, 3, affine=False), (torch.rand(2, 3),), "affine=True"),
        (nn.ConvTranspose2d(1, 1, 2, dilation=2), (torch.rand(1, 1, 4, 4),), "dilation"),
        (nn.LSTM(2, 2, num_layers=2), (torch.rand(3, 1, 2),), "num_layers=2"),
        (nn.LSTM(2, 2, bias=False), (torch.rand(3, 1, 2),), "bias=False"),
        (nn.GRU(2, 2, bidirectional=True), (torch.rand(3, 1, 2),), "bidirectional"),
        (nn.RNN(2, 2, bias=False), (torch.rand(3, 1, 2),), "bias=False"),
        (nn.Upsample(size=(6, 8), mode="bilinear"), (torch.rand(1, 1, 3, 3),), "whole factor"),
        (nn.Upsample(scale_factor=1.5, mode="bilinear"), (torch.rand(1, 1, 4, 4),), "whole factor"),
        (lambda x: torch.linalg.matrix_norm(x, 2), (torch.rand(3, 3),), "matrix norm"),
        (
            lambda x, y: F.ctc_loss(x, y, (4,), (2,), reduction="none"),
            (torch.rand(4, 1, 3).log_softmax(2), torch.tensor([[1, 2]])),
            "reduction",
        ),
    ],
)
def test_S45_partial_support(compute, inputs, said):
    error = refuse(compute, *inputs)
    assert said in error.message
    assert error.location, "the learner's line, or the call of a layer"


@pytest.mark.parametrize(
    ("compute", "inputs"),
    [
        (nn.GRU(2, 2, bias=False), (torch.rand(3, 1, 2),)),
        (nn.Upsample(scale_factor=2, mode="bilinear"), (torch.rand(1, 1, 4, 4),)),
        (nn.MaxPool2d(2), (torch.rand(1, 1, 4, 4),)),
        (lambda x: x.topk(2), (torch.rand(3),)),
        (lambda x: torch.linalg.matrix_norm(x), (torch.rand(3, 3),)),
    ],
)
def test_S45_the_supported_uses_compile(compute, inputs):
    poptorch.inferenceModel(Calls(compute)).compile(*inputs)


def steps(x):
    x = x * 1
    x[::2] = 0  # every other
    return x


def test_S44_assignment_to_a_slice_with_a_step_is_refused():
    assert refuse(steps, torch.ones(4)).message.endswith("# every other")


def test_S44_assignment_to_a_slice_works():
    def compute(x):
        x = x * 1
        x[1:3] = 0
        return x

    assert poptorch.inferenceModel(Calls(compute))(torch.ones(4)).tolist() == [1, 0, 0, 1]
