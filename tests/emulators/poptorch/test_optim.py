"""The update on the device is the one the optimizer describes."""

import copy

import pytest
import torch

import poptorch


def compare(classifier, batch, train_plainly, assert_same_weights, name, steps=4, **arguments):
    """Train a few steps with the device's and with PyTorch's optimizer of the same name."""
    reference = copy.deepcopy(classifier)
    theirs = getattr(torch.optim, name)(reference.parameters(), **arguments)
    ours = getattr(poptorch.optim, name)(classifier.parameters(), **arguments)
    training = poptorch.trainingModel(classifier, optimizer=ours)
    for _ in range(steps):
        inputs = batch(5)
        training(*inputs)
        train_plainly(reference, theirs, inputs)
    assert_same_weights(classifier, reference)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.1},
        {"momentum": 0.9, "nesterov": True},
        {"weight_decay": 0.1},
        {"momentum": 0.9, "weight_decay": 0.1, "maximize": True},
    ],
)
def test_S19_sgd_updates_as_pytorchs(classifier, batch, train_plainly, assert_same_weights, arguments):
    compare(classifier, batch, train_plainly, assert_same_weights, "SGD", lr=0.1, **arguments)


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
@pytest.mark.parametrize(
    "arguments", [{}, {"lr": 0.01, "betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.1}]
)
def test_S19_adam_updates_as_pytorchs(classifier, batch, train_plainly, assert_same_weights, name, arguments):
    compare(classifier, batch, train_plainly, assert_same_weights, name, **arguments)


def test_S19_the_default_is_sgd_with_learning_rate_one_hundredth(
    classifier, batch, train_plainly, assert_same_weights
):
    reference = copy.deepcopy(classifier)
    inputs = batch(5)
    poptorch.trainingModel(classifier)(*inputs)
    train_plainly(reference, torch.optim.SGD(reference.parameters(), lr=0.01), inputs)
    assert_same_weights(classifier, reference)


def test_S21_step_never_runs_and_a_subclass_warns(classifier, batch, caplog):
    class Mine(torch.optim.SGD):
        def step(self, closure=None):
            raise AssertionError("the device does not call this")

    poptorch.trainingModel(classifier, optimizer=Mine(classifier.parameters(), lr=0.1))(*batch(4))
    assert "Mine is a subclass of SGD" in caplog.text


def test_S21_unknown_optimizers_are_refused(classifier):
    with pytest.raises(AssertionError, match="no Adagrad optimizer"):
        poptorch.trainingModel(classifier, optimizer=torch.optim.Adagrad(classifier.parameters()))


def test_S21_amsgrad_is_refused(classifier):
    optimizer = poptorch.optim.Adam(classifier.parameters(), amsgrad=True)
    with pytest.raises(ValueError, match="amsgrad"):
        poptorch.trainingModel(classifier, optimizer=optimizer)


def test_S22_a_changed_learning_rate_needs_set_optimizer(classifier, batch):
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
    training = poptorch.trainingModel(classifier, optimizer=optimizer)
    training(*batch(4))

    def moved():
        before = classifier.out.bias.detach().clone()
        training(*batch(4))
        return not torch.equal(classifier.out.bias, before)

    optimizer.param_groups[0]["lr"] = 0.0
    assert moved()
    training.setOptimizer(optimizer)
    assert not moved()


def test_S22_momentum_survives_set_optimizer(classifier, batch, train_plainly, assert_same_weights):
    reference = copy.deepcopy(classifier)
    theirs = torch.optim.SGD(reference.parameters(), lr=0.1, momentum=0.9)
    training = poptorch.trainingModel(
        classifier, optimizer=poptorch.optim.SGD(classifier.parameters(), lr=0.1, momentum=0.9)
    )
    for lr in (0.1, 0.05, 0.02):
        theirs.param_groups[0]["lr"] = lr
        training.setOptimizer(poptorch.optim.SGD(classifier.parameters(), lr=lr, momentum=0.9))
        inputs = batch(5)
        training(*inputs)
        train_plainly(reference, theirs, inputs)
    assert_same_weights(classifier, reference)


@pytest.mark.parametrize("package", [poptorch.optim, torch.optim])
def test_S22_what_was_left_at_its_default_is_constant(classifier, batch, package):
    training = poptorch.trainingModel(classifier, optimizer=package.SGD(classifier.parameters(), lr=0.1))
    training(*batch(4))
    changed = package.SGD(classifier.parameters(), lr=0.1, weight_decay=0.5)
    with pytest.raises(poptorch.Error, match="weight_decay is a constant"):
        training.setOptimizer(changed)


@pytest.mark.parametrize("package", [poptorch.optim, torch.optim])
def test_S22_what_was_given_is_variable(classifier, batch, package):
    training = poptorch.trainingModel(
        classifier, optimizer=package.SGD(classifier.parameters(), lr=0.1, weight_decay=0.5)
    )
    training(*batch(4))
    training.setOptimizer(package.SGD(classifier.parameters(), lr=0.1, weight_decay=0.2))


def test_S22_attributes_can_be_marked():
    optimizer = poptorch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1, momentum=0.9)
    attributes = optimizer.variable_attrs
    assert not attributes.isConstant("lr")
    assert not attributes.isConstant("momentum")
    assert attributes.isConstant("weight_decay")
    attributes.markAsConstant("momentum")
    attributes.markAsVariable("weight_decay")
    assert attributes.isConstant("momentum")
    assert not attributes.isConstant("weight_decay")
    with pytest.raises(AssertionError, match="no attribute 'moment'"):
        attributes.markAsVariable("moment")


def test_S23_loss_scaling_changes_nothing_in_float32(classifier, batch, train_plainly, assert_same_weights):
    reference = copy.deepcopy(classifier)
    inputs = batch(5)
    ours = poptorch.optim.SGD(classifier.parameters(), lr=0.1, loss_scaling=128.0)
    poptorch.trainingModel(classifier, optimizer=ours)(*inputs)
    train_plainly(reference, torch.optim.SGD(reference.parameters(), lr=0.1), inputs)
    assert_same_weights(classifier, reference)


def test_S23_max_grad_norm_clips_the_global_norm(classifier, batch):
    before = [parameter.detach().clone() for parameter in classifier.parameters()]
    ours = poptorch.optim.SGD(classifier.parameters(), lr=1.0, max_grad_norm=0.01)
    poptorch.trainingModel(classifier, optimizer=ours)(*batch(5))
    step = torch.cat([(a - b).flatten() for a, b in zip(before, classifier.parameters(), strict=True)])
    assert step.norm().item() == pytest.approx(0.01, rel=1e-3)


def test_S25_only_listed_parameters_are_updated_each_group_its_own_way(classifier, batch):
    before = {name: parameter.detach().clone() for name, parameter in classifier.named_parameters()}
    groups = [{"params": [classifier.out.weight], "lr": 0.0}, {"params": [classifier.out.bias]}]
    training = poptorch.trainingModel(classifier, optimizer=poptorch.optim.SGD(groups, lr=0.1))
    training(*batch(4))
    moved = {
        name for name, parameter in classifier.named_parameters() if not torch.equal(parameter, before[name])
    }
    assert moved == {"out.bias"}


def test_parameters_of_another_model_are_refused(classifier):
    other = torch.nn.Linear(2, 2)
    with pytest.raises(poptorch.Error, match="does not have"):
        poptorch.trainingModel(classifier, optimizer=torch.optim.SGD(other.parameters(), lr=0.1))
