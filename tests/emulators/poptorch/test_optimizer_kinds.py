"""Optimizers beyond SGD and Adam, and what the device adds to them."""

import copy

import pytest
import torch
from torch import nn

import poptorch
from poptorch import MeanReductionStrategy


def trained(model, optimizer, batches, options=None):
    wrapped = poptorch.trainingModel(model, options, optimizer)
    for batch in batches:
        wrapped(*batch)
    return wrapped


@pytest.mark.parametrize(
    "arguments",
    [{}, {"momentum": 0.9}, {"centered": True}, {"weight_decay": 0.1, "momentum": 0.5, "centered": True}],
)
def test_S19_rmsprop_updates_as_pytorchs(classifier, batch, train_plainly, assert_same_weights, arguments):
    reference = copy.deepcopy(classifier)
    theirs = torch.optim.RMSprop(reference.parameters(), lr=0.01, **arguments)
    ours = poptorch.optim.RMSprop(classifier.parameters(), lr=0.01, **arguments)
    batches = [batch(5) for _ in range(4)]
    trained(classifier, ours, batches)
    for inputs in batches:
        train_plainly(reference, theirs, inputs)
    assert_same_weights(classifier, reference)


@pytest.mark.parametrize("kind", ["lamb", "lamb_no_bias", "adamw_no_bias"])
def test_S19_the_device_updates_as_step_does_on_the_host(
    classifier, batch, train_plainly, assert_same_weights, kind
):
    made = {
        "lamb": lambda p: poptorch.optim.LAMB(p, lr=0.05, weight_decay=0.1, max_weight_norm=2.0),
        "lamb_no_bias": lambda p: poptorch.optim.LAMB(p, lr=0.05, bias_correction=False),
        "adamw_no_bias": lambda p: poptorch.optim.AdamW(p, lr=0.01, bias_correction=False),
    }[kind]
    reference = copy.deepcopy(classifier)
    batches = [batch(5) for _ in range(4)]
    theirs = made(reference.parameters())
    trained(classifier, made(classifier.parameters()), batches)
    for inputs in batches:
        train_plainly(reference, theirs, inputs)
    assert_same_weights(classifier, reference)


def test_lamb_scales_adams_step_by_the_norm_of_the_weights(assert_same_weights):
    weight = nn.Parameter(torch.tensor([3.0, 4.0]))
    weight.grad = torch.tensor([0.5, 0.5])
    poptorch.optim.LAMB([weight], lr=0.1).step()
    # Adam's first step is one in every element, of norm sqrt(2); the weights' norm is 5.
    torch.testing.assert_close(weight.detach(), torch.tensor([3.0, 4.0]) - 0.1 * 5 / 2**0.5)


def test_tensorflows_rmsprop_has_eps_inside_the_root(classifier, batch):
    before = classifier.out.bias.detach().clone()
    optimizer = poptorch.optim.RMSprop(classifier.parameters(), lr=0.1, eps=1e6, use_tf_variant=True)
    plain = copy.deepcopy(classifier)
    inputs = batch(4)
    trained(classifier, optimizer, [inputs])
    plain(*inputs)[1].backward()
    square = 0.01 * plain.out.bias.grad**2
    expected = before - 0.1 * plain.out.bias.grad / (square + 1e6).sqrt()
    torch.testing.assert_close(classifier.out.bias.detach(), expected)


@pytest.mark.parametrize("combined", [True, False])
def test_S23_momentum_does_not_depend_on_loss_or_velocity_scaling(
    classifier, batch, train_plainly, assert_same_weights, combined
):
    reference = copy.deepcopy(classifier)
    arguments = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}
    theirs = torch.optim.SGD(reference.parameters(), **arguments)
    scaling = {"use_combined_accum": True, "velocity_scaling": 32.0} if combined else {}
    ours = poptorch.optim.SGD(classifier.parameters(), loss_scaling=8.0, **scaling, **arguments)
    batches = [batch(5) for _ in range(3)]
    trained(classifier, ours, batches)
    for inputs in batches:
        train_plainly(reference, theirs, inputs)
    assert_same_weights(classifier, reference)


def test_S23_velocity_scaling_needs_a_combined_momentum(classifier):
    with pytest.raises(ValueError, match="use_combined_accum=True"):
        poptorch.optim.SGD(classifier.parameters(), lr=0.1, velocity_scaling=2.0)


def test_S24_moments_have_the_types_asked_for(classifier, batch):
    optimizer = poptorch.optim.Adam(
        classifier.parameters(), first_order_momentum_accum_type=torch.half, accum_type=torch.float
    )
    trained(classifier, optimizer, [batch(4)])
    state = optimizer.state_dict()["ipu_state"]
    assert state["Accl1___out.bias"].dtype == torch.float16
    assert state["Accl2___out.bias"].dtype == torch.float32
    with pytest.raises(AssertionError, match=r"float32 or torch\.float16"):
        poptorch.optim.Adam(classifier.parameters(), accum_type=torch.int32)


def test_S20_a_mean_in_float16_is_a_running_one(classifier, batch):
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    optimizer = poptorch.optim.SGD(classifier.parameters(), lr=0.1, accum_type=torch.half)
    wrapped = poptorch.trainingModel(classifier, options, optimizer)
    chosen = wrapped.options.Training.meanAccumulationAndReplicationReductionStrategy
    assert chosen == MeanReductionStrategy.Running
    kept = options.Training.meanAccumulationAndReplicationReductionStrategy
    assert kept == MeanReductionStrategy.Post


def test_S20_a_combined_momentum_leaves_the_strategy(classifier):
    optimizer = poptorch.optim.SGD(
        classifier.parameters(), lr=0.1, accum_type=torch.half, use_combined_accum=True
    )
    wrapped = poptorch.trainingModel(classifier, optimizer=optimizer)
    chosen = wrapped.options.Training.meanAccumulationAndReplicationReductionStrategy
    assert chosen == MeanReductionStrategy.Post


def test_S20_the_strategy_is_settled_when_the_model_is_compiled(classifier, batch):
    optimizer = poptorch.optim.Adam(classifier.parameters())
    wrapped = trained(classifier, optimizer, [batch(4)])
    optimizer.accum_type = torch.half
    with pytest.raises(ValueError, match="is already compiled"):
        wrapped.setOptimizer(optimizer)


@pytest.mark.parametrize("strategy", list(MeanReductionStrategy))
def test_S20_strategies_agree_in_float32(classifier, batch, train_plainly, assert_same_weights, strategy):
    reference = copy.deepcopy(classifier)
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    options.Training.setMeanAccumulationAndReplicationReductionStrategy(strategy)
    inputs = batch(8)
    trained(classifier, poptorch.optim.SGD(classifier.parameters(), lr=0.5), [inputs], options)
    train_plainly(reference, torch.optim.SGD(reference.parameters(), lr=0.5), inputs, micro_batches=4)
    assert_same_weights(classifier, reference)


def test_S20_a_sum_in_float16_overflows_where_a_running_mean_does_not():
    class Steep(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return poptorch.identity_loss(x * self.weight, "sum")

    model = Steep()
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=1.0, accum_type=torch.half)
    trained(model, optimizer, [(torch.full((4,), 40000.0),)], options)
    assert model.weight.item() == pytest.approx(-40000.0, rel=1e-3)


def test_S22_unexpected_attributes_are_warned_about_once(classifier, batch, caplog):
    optimizer = poptorch.optim.SGD(classifier.parameters(), lr=0.1, loss_scaling=1.0)
    optimizer.note = "there from the start"
    wrapped = trained(classifier, optimizer, [batch(4)])
    optimizer.colour = "green"
    optimizer.param_groups[0]["initial_lr"] = 0.1
    for scaling in (2.0, 4.0):
        optimizer.loss_scaling = scaling
        wrapped.setOptimizer(optimizer)
    assert caplog.text.count("Ignoring unexpected optimizer attribute 'colour'") == 1
    assert caplog.text.count("Ignoring unexpected group 0 attribute 'initial_lr'") == 1
    assert "note" not in caplog.text


def test_S22_relaxed_checks_do_not_warn(classifier, batch, caplog):
    optimizer = poptorch.optim.SGD(classifier.parameters(), lr=0.1)
    options = poptorch.Options().relaxOptimizerAttributesChecks()
    wrapped = trained(classifier, optimizer, [batch(4)], options)
    optimizer.colour = "green"
    wrapped.setOptimizer(optimizer)
    assert "colour" not in caplog.text


def test_copies_of_an_optimizer_keep_what_the_device_adds(classifier):
    optimizer = poptorch.optim.SGD(classifier.parameters(), lr=0.1, loss_scaling=4.0, max_grad_norm=2.0)
    twin = copy.copy(optimizer)
    assert (twin.loss_scaling, twin.max_grad_norm) == (4.0, 2.0)
    assert not twin.variable_attrs.isConstant("loss_scaling")


def test_automatic_loss_scaling_doubles_while_gradients_are_small(batch):
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(4, 4).half()

        def forward(self, x):
            return poptorch.identity_loss(self.lin(x), "mean")

    model = Half()
    options = poptorch.Options().anchorTensor("scale", "finalLossScale")
    options.Training.setAutomaticLossScaling(True)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.0, loss_scaling=2.0)
    wrapped = poptorch.trainingModel(model, options, optimizer)
    scales = []
    for _ in range(9):
        wrapped(torch.ones(2, 4).half())
        scales.append(wrapped.getAnchoredTensor("scale").item())
    assert scales == [2.0] * 8 + [4.0]
