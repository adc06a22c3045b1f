"""What calls of PyTorch in forward mean on the device: where tensors are and of what type."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch


class Calls(nn.Module):
    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def forward(self, *inputs):
        return self.compute(*inputs)


def on_device(compute, *inputs):
    return poptorch.inferenceModel(Calls(compute))(*inputs)


OUTSIDE = torch.ones(3)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x.index_select(0, torch.LongTensor([1, 0])),
        lambda x: x + torch.FloatTensor([1, 0, 0]) * 2,
        lambda x: x + torch.zeros(3, device="cpu"),
    ],
)
def test_S42_tensors_that_forward_makes_on_the_host_do_not_mix_with_the_devices(compute):
    with pytest.raises(
        poptorch.Error, match=r"Expected an IPU tensor but got tensor\(device=cpu, shape=\[\d\]"
    ):
        on_device(compute, torch.ones(3))


def test_S42_the_refusal_names_shape_type_and_line():
    with pytest.raises(poptorch.Error) as refused:
        on_device(lambda x: x[torch.LongTensor([1, 0])], torch.ones(3))
    assert "tensor(device=cpu, shape=[2], dtype=Long)" in refused.value.message
    assert refused.value.location.startswith(__file__)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x + OUTSIDE,
        lambda x: x + OUTSIDE.sum(0, keepdim=True) / 3,
        lambda x: x + OUTSIDE.to("ipu"),
        lambda x: x + torch.ones(3, device="ipu"),
        lambda x: x + torch.ones(3, device=x.device),
        lambda x: x + torch.tensor([1.0, 1.0, 1.0]),
        lambda x: x + torch.ones_like(x),
        lambda x: x + torch.tensor(1.0),
        lambda x: x.to("ipu") + 1,
    ],
)
def test_S35_S42_constants_and_tensors_made_on_the_device_mix(compute):
    assert on_device(compute, torch.ones(3)).tolist() == [2, 2, 2]


def test_S42_factories_without_a_device_are_forced_to_the_ipu_with_a_warning(caplog):
    on_device(lambda x: x + torch.zeros(3) + torch.zeros(3) + torch.ones(3), torch.ones(3))
    assert caplog.text.count("No device set in torch.zeros(): forcing to IPU") == 1
    assert caplog.text.count("No device set in torch.ones(): forcing to IPU") == 1


@pytest.mark.parametrize("move", [torch.Tensor.cpu, lambda x: x.to("cpu"), lambda x: x.to(device="cpu")])
def test_S41_tensors_cannot_leave_the_device(move):
    with pytest.raises(poptorch.Error, match="Illegal move to CPU") as refused:
        on_device(lambda x: move(x) + 1, torch.ones(3))
    assert refused.value.location.startswith(__file__)


def test_S41_printing_shows_no_values(capsys):
    def compute(x):
        print(x)
        return x + 1

    on_device(compute, torch.ones(3))
    assert "<unavailable>" in capsys.readouterr().out


def test_S10_64_bit_integers_are_32_bit_on_the_device():
    seen = []

    def compute(x):
        seen.extend([x.dtype, x.argmax().dtype, torch.arange(3).dtype, x.long().dtype])
        return x * 2

    x = torch.tensor([2**30, 5])
    result = on_device(compute, x)
    assert seen == [torch.int32] * 4
    assert result.dtype == torch.int32
    assert result.tolist() == [-(2**31), 10], "32 bits overflow"


def test_S10_doubles_are_floats_on_the_device():
    seen = []

    def compute(x):
        seen.extend([x.double().dtype, x.to(torch.float64).dtype, torch.zeros(1, dtype=torch.float64).dtype])
        return x.double() / 3

    assert on_device(compute, torch.ones(1)).item() == torch.tensor(1 / 3, dtype=torch.float32).item()
    assert seen == [torch.float32] * 3


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, index: F.cross_entropy(x, index),
        lambda x, index: F.nll_loss(x, target=index),
        lambda x, index: F.embedding(index, x),
        lambda x, index: x.gather(1, index.unsqueeze(1)),
        lambda x, index: torch.zeros_like(x).scatter_add(1, index.unsqueeze(1), x),
        lambda x, index: F.one_hot(index, 3) * 2,
        lambda x, index: x[index],
        lambda x, index: x.index_select(0, index),
    ],
)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_S10_class_labels_and_indices_may_have_32_bits(compute, dtype):
    x, index = torch.randn(4, 3), torch.tensor([0, 2, 1, 0])
    result = on_device(compute, x, index.to(dtype))
    torch.testing.assert_close(result, compute(x, index), check_dtype=False)


def test_S10_conversions_for_the_host_are_no_operations_of_the_device():
    model = poptorch.inferenceModel(Calls(lambda x, index: x.gather(1, index)))
    model.compile(torch.ones(2, 2), torch.zeros(2, 1, dtype=torch.int32))
    (gather,) = model.program.operations
    index = list(model.program.inputs)[1]
    assert gather.inputs == (next(iter(model.program.inputs)), index)
    assert model.program.inputs[index].dtype == torch.int32


@pytest.mark.parametrize(
    ("loss", "arguments"),
    [
        (F.multilabel_soft_margin_loss, (torch.ones(4, 3),)),
        (lambda x, target: F.kl_div(x.log_softmax(1), target, reduction="batchmean"), (torch.rand(4, 3),)),
        (F.triplet_margin_with_distance_loss, (torch.rand(4, 3), torch.rand(4, 3))),
    ],
)
def test_S17_losses_that_pytorch_composes_are_found(loss, arguments):
    layer = nn.Linear(3, 3)
    weight, bias = layer.weight.detach().clone().requires_grad_(), layer.bias.detach().clone()
    x = torch.randn(4, 3)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x, *arguments):
            return loss(self.layer(x), *arguments)

    model = poptorch.trainingModel(Model(), optimizer=poptorch.optim.SGD(layer.parameters(), lr=1.0))
    result = model(x, *arguments)
    expected = loss(F.linear(x, weight, bias), *arguments)
    expected.backward()
    torch.testing.assert_close(result.as_subclass(torch.Tensor), expected.detach())
    torch.testing.assert_close(layer.weight.detach(), (weight - weight.grad).detach())


@pytest.mark.parametrize("lengths", [((4, 3), (2, 1)), (torch.tensor([4, 3]), torch.tensor([2, 1]))])
def test_S17_ctc_loss_is_one_operation(lengths):
    log_probabilities = torch.randn(4, 2, 3).log_softmax(2)
    targets = torch.tensor([[1, 2], [2, 1]])
    model = poptorch.inferenceModel(Calls(lambda x, y: F.ctc_loss(x, y, *lengths)))
    expected = F.ctc_loss(log_probabilities, targets, *lengths)
    torch.testing.assert_close(model(log_probabilities, targets).as_subclass(torch.Tensor), expected)


# --- Mixed precision


@pytest.mark.parametrize("layer", [nn.Linear(4, 5), nn.Conv1d(4, 5, 2), nn.ConvTranspose2d(4, 5, 2)])
@pytest.mark.parametrize("activation", [torch.float16, torch.float32])
@pytest.mark.parametrize("weights", [torch.float16, torch.float32])
def test_S50_layers_follow_their_activation(layer, activation, weights):
    shape = {nn.Linear: (2, 4), nn.Conv1d: (2, 4, 4), nn.ConvTranspose2d: (2, 4, 4, 4)}[type(layer)]
    result = poptorch.inferenceModel(layer.to(weights))(torch.ones(shape, dtype=activation))
    assert result.dtype == activation


def test_S50_elementwise_mixtures_are_float32():
    half, single = torch.ones(3, dtype=torch.float16), torch.ones(3)
    assert on_device(lambda a, b: a + b, half, single).dtype == torch.float32
    assert on_device(lambda a: a * 2.5, half).dtype == torch.float16


def test_S50_float32_weights_train_with_float16_activations():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x, target):
            out = self.layer(x)
            return out, F.mse_loss(out, target)

    model = Model()
    training = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.5))
    x, target = torch.randn(8, 4).half(), torch.randn(8, 4).half()
    losses = [float(training(x, target)[1]) for _ in range(20)]
    assert losses[-1] < losses[0] / 2
    assert model.layer.weight.dtype == torch.float32
