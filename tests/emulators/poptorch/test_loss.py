"""Which loss is back-propagated from."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch


class WithLoss(nn.Module):
    """A linear layer and a loss computed by the given function, from the prediction and a target."""

    def __init__(self, loss, returned=lambda prediction, loss: (prediction, loss)):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.loss, self.returned = loss, returned

    def forward(self, x, target):
        prediction = self.layer(x)
        return self.returned(prediction, self.loss(prediction, target))


def trained(model):
    """The layer's weights after one step with learning rate 1."""
    inputs = torch.randn(5, 4), torch.rand(5, 3)
    poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=1.0))(*inputs)
    return model.layer.weight.detach().clone(), inputs


def expected(model, inputs, loss):
    """The same with plain PyTorch."""
    loss(model.layer(inputs[0]), inputs[1]).backward()
    return (model.layer.weight - model.layer.weight.grad).detach()


@pytest.mark.parametrize(
    "loss",
    [
        F.mse_loss,
        F.l1_loss,
        F.smooth_l1_loss,
        F.huber_loss,
        F.cross_entropy,
        F.binary_cross_entropy_with_logits,
    ],
)
def test_S17_torch_losses_are_found(loss):
    model = WithLoss(loss)
    reference = copy.deepcopy(model)
    weight, inputs = trained(model)
    torch.testing.assert_close(weight, expected(reference, inputs, loss))


@pytest.mark.parametrize(
    ("reduction", "reduce"), [("sum", torch.sum), ("mean", torch.mean), ("none", torch.sum)]
)
def test_S17_identity_loss_marks_a_loss_of_ones_own(reduction, reduce):
    def distance(prediction, target):
        return (prediction - target).abs().sqrt()

    model = WithLoss(lambda p, t: poptorch.identity_loss(distance(p, t), reduction))
    reference = copy.deepcopy(model)
    weight, inputs = trained(model)
    torch.testing.assert_close(weight, expected(reference, inputs, lambda p, t: reduce(distance(p, t))))


def test_S17_unknown_reduction_is_refused():
    with pytest.raises(AssertionError, match="average"):
        poptorch.identity_loss(torch.ones(3), "average")


def test_S17_on_the_host_identity_loss_reduces():
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    poptorch.identity_loss(x, "mean").backward()
    assert x.grad.tolist() == [0.5, 0.5]
    assert poptorch.identity_loss(x, "sum") == 4
    assert torch.equal(poptorch.identity_loss(x, "none"), x)


def test_S18_a_loss_must_be_marked():
    with pytest.raises(poptorch.Error, match="Couldn't find a loss in graph!"):
        trained(WithLoss(lambda p, t: (p - t).square().mean()))


def test_S18_independent_losses_are_refused_naming_their_lines():
    with pytest.raises(poptorch.Error, match="Multiple independent losses found in graph") as refused:
        trained(WithLoss(lambda p, t: (F.l1_loss(p, t), F.mse_loss(p, t))))
    assert "l1_loss at" in str(refused.value)
    assert "test_loss.py" in str(refused.value)


def test_S18_losses_that_feed_a_final_one_keep_their_reduction():
    def total(p, t):
        return poptorch.identity_loss(poptorch.identity_loss(p * p, "mean") + F.l1_loss(p, t), "none")

    model = WithLoss(total)
    reference = copy.deepcopy(model)
    weight, inputs = trained(model)
    torch.testing.assert_close(
        weight, expected(reference, inputs, lambda p, t: (p * p).mean() + F.l1_loss(p, t))
    )


def test_gradients_come_from_the_marked_loss_not_from_what_is_returned():
    model = WithLoss(F.mse_loss, returned=lambda prediction, loss: (prediction, loss * 100))
    reference = copy.deepcopy(model)
    weight, inputs = trained(model)
    torch.testing.assert_close(weight, expected(reference, inputs, F.mse_loss))


def test_the_loss_need_not_be_returned():
    model = WithLoss(F.mse_loss, returned=lambda prediction, loss: prediction)
    reference = copy.deepcopy(model)
    weight, inputs = trained(model)
    torch.testing.assert_close(weight, expected(reference, inputs, F.mse_loss))
