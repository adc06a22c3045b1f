"""float16: partial sums, rounding, and what happens outside its range."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch
from poptorch.run.rounding import stochastic


class Calls(nn.Module):
    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def forward(self, *inputs):
        return self.compute(*inputs)


def on_device(compute, *inputs, partials=None, random_rounding=False, exceptions=False):
    options = poptorch.Options().randomSeed(1)
    if partials is not None:
        options.Precision.setPartialsType(partials)
    options.Precision.enableStochasticRounding(random_rounding)
    options.Precision.enableFloatingPointExceptions(exceptions)
    return poptorch.inferenceModel(Calls(compute), options)(*inputs).as_subclass(torch.Tensor)


def test_S51_partial_sums_are_float32_unless_asked_for_float16():
    x = torch.ones(1, 4096).half()
    weight = torch.full((1, 4096), 0.01).half()
    weight[0, 0] = 1024
    assert on_device(F.linear, x, weight).item() == 1065
    assert on_device(F.linear, x, weight, partials=torch.float16).item() == 1024, (
        "16 x 0.01 vanish beside 1024"
    )


@pytest.mark.parametrize(
    ("compute", "shapes"),
    [
        (F.linear, [(3, 40), (5, 40), (5,)]),
        (torch.matmul, [(2, 3, 40), (40, 4)]),
        (torch.matmul, [(3, 40), (40,)]),
        (F.conv1d, [(2, 40, 6), (4, 40, 3), (4,)]),
        (lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), [(2, 20, 6, 6), (4, 20, 3, 3), (4,)]),
        (lambda x, w: F.conv2d(x, w, groups=2), [(2, 40, 4, 4), (6, 20, 2, 2)]),
    ],
)
def test_S51_float16_partial_sums_are_close(compute, shapes):
    inputs = [torch.randn(shape).half() for shape in shapes]
    expected = compute(*[each.float() for each in inputs])
    result = on_device(compute, *inputs, partials=torch.float16)
    assert result.dtype == torch.float16
    torch.testing.assert_close(result.float(), expected, rtol=0.02, atol=0.05)


def test_S51_float16_partial_sums_train():
    model = nn.Linear(40, 1).half()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = model

        def forward(self, x, target):
            return F.mse_loss(self.layer(x), target)

    options = poptorch.Options()
    options.Precision.setPartialsType(torch.float16)
    training = poptorch.trainingModel(Model(), options, torch.optim.SGD(model.parameters(), lr=0.05))
    x, target = torch.randn(16, 40).half(), torch.randn(16, 1).half()
    losses = [float(training(x, target)) for _ in range(20)]
    assert losses[-1] < losses[0] / 2


def test_S51_stochastic_rounding_keeps_the_mean():
    values = torch.full((100_000,), 1 + 0.25 * 2**-10)
    rounded = stochastic(values)
    assert rounded.unique().tolist() == [1, 1 + 2**-10]
    assert abs(rounded.float().mean() - values[0]).item() < 0.02 * 2**-10


def test_S51_stochastic_rounding_leaves_what_float16_holds():
    values = torch.tensor([0.0, 1.0, -2.5, 65504.0, torch.inf, -torch.inf])
    assert torch.equal(stochastic(values), values.half())
    assert stochastic(torch.tensor(torch.nan)).isnan()


def test_S51_stochastic_rounding_of_results():
    x, small = torch.ones(4096).half(), torch.full((4096,), 2.0**-12).half()
    assert torch.equal(on_device(torch.add, x, small), x)
    mean = on_device(torch.add, x, small, random_rounding=True).float().mean().item()
    assert abs(mean - (1 + 2**-12)) < 2**-13


@pytest.mark.parametrize("random_rounding", [False, True])
def test_S51_stochastic_rounding_lets_small_updates_count(random_rounding):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(512).half())

        def forward(self, x):
            return poptorch.identity_loss(self.weight * x, "sum")

    model = Model()
    options = poptorch.Options().randomSeed(3)
    options.Precision.enableStochasticRounding(random_rounding)
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=2.0**-13))
    for _ in range(16):
        training(torch.ones(512).half())
    moved = 1 - model.weight.detach().float().mean().item()
    assert moved == 0 if not random_rounding else abs(moved - 16 * 2**-13) < 4 * 2**-13


def test_S51_results_beyond_float16_are_infinite():
    x = torch.tensor([60000.0]).half()
    assert on_device(lambda x: x + x, x).isinf().all()
    assert on_device(lambda x: x * 1e-8, torch.tensor([1.0]).half()).item() == 0


def divides(x):
    return 1 / x  # by zero


@pytest.mark.parametrize(
    ("compute", "value", "said"),
    [
        (divides, 0.0, "infinite"),
        (lambda x: x.sqrt(), -1.0, "not a number"),
        (lambda x: x.exp(), 1000.0, "infinite"),
        (lambda x: x * 0, torch.inf, "not a number"),
        (lambda x: x > 0, torch.nan, "compares with NaN"),
    ],
)
def test_S51_floating_point_exceptions(compute, value, said):
    x = torch.tensor([value])
    on_device(compute, x)
    with pytest.raises(poptorch.Error, match=said) as raised:
        on_device(compute, x, exceptions=True)
    assert raised.value.location.startswith(__file__)


def test_S51_without_an_exception_the_result_is_the_same():
    x = torch.randn(3)
    torch.testing.assert_close(on_device(lambda x: x.exp() + 1, x, exceptions=True), x.exp() + 1)


def test_S51_gradients_that_overflow_are_exceptions_too():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1).half())

        def forward(self, x):
            return poptorch.identity_loss(self.weight * x, "sum")

    options = poptorch.Options()
    options.Precision.enableFloatingPointExceptions(True)
    model = Model()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, loss_scaling=70000.0)
    with pytest.raises(poptorch.Error, match="lower loss_scaling"):
        poptorch.trainingModel(model, options, optimizer)(torch.ones(1).half())


def test_S23_loss_scaling_saves_small_gradients():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, x):
            return poptorch.identity_loss((self.weight.half() * x) * 1e-4, "sum")

    moved = {}
    for scaling in (1.0, 1024.0):
        model = Model()
        optimizer = poptorch.optim.SGD(model.parameters(), lr=1e6, loss_scaling=scaling)
        poptorch.trainingModel(model, optimizer=optimizer)(torch.full((1,), 2e-4).half())
        moved[scaling] = 1 - model.weight.item()
    assert moved[1.0] == 0, "2e-8 is less than half of float16's smallest number"
    assert moved[1024.0] == pytest.approx(0.02, rel=0.05)


def test_S52_running_statistics_have_the_type_of_their_layer():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3).half()

        def forward(self, x):
            return poptorch.identity_loss(self.norm(x), "sum")

    model = Model()
    poptorch.trainingModel(model)(torch.randn(4, 3).half() + 1)
    assert model.norm.running_mean.dtype == torch.float16
    assert model.norm.running_mean.abs().sum() > 0
