"""Host weights and device weights."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch
from poptorch.weights.host_weights import DeviceWeights


@pytest.fixture
def copies(monkeypatch):
    """Directions of the copies made between host and device, in order."""
    made = []
    for direction in ("download", "upload"):
        original = getattr(DeviceWeights, direction)

        def counted(self, original=original, direction=direction):
            made.append(direction)
            original(self)

        monkeypatch.setattr(DeviceWeights, direction, counted)
    return made


def trainer(model):
    return poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.5))


@pytest.mark.parametrize(
    "look",
    [
        lambda model: model.hidden.weight.detach(),
        lambda model: model.hidden.weight + 1,
        lambda model: model.hidden.weight.data,
        lambda model: repr(model.hidden.weight),
        lambda model: model.state_dict(),
        lambda model: model(torch.zeros(1, 4)),
        lambda model: [parameter.sum() for parameter in model.parameters()],
    ],
)
def test_S29_looking_at_weights_copies_them_once(classifier, batch, copies, look):
    training = trainer(classifier)
    training(*batch(4))
    training(*batch(4))
    assert copies == []
    look(classifier)
    look(classifier)
    assert copies == ["download"]
    training(*batch(4))
    look(classifier)
    assert copies == ["download"] * 2


def test_S29_shapes_need_no_copy(classifier, batch, copies):
    trainer(classifier)(*batch(4))
    assert classifier.hidden.weight.shape == (8, 4)
    assert sum(parameter.numel() for parameter in classifier.parameters()) == 67
    classifier.zero_grad()
    assert copies == []


def test_S29_copy_if_needed_says_whether_it_was(classifier, batch):
    training = trainer(classifier)
    training(*batch(4))
    assert classifier.copyWeightsToHostIfNeeded() is True
    assert training.copyWeightsToHostIfNeeded() is False


def test_S30_the_device_keeps_its_weights_until_told(classifier, batch):
    inference = poptorch.inferenceModel(classifier)
    x, _ = batch(4)
    before = inference(x)
    with torch.no_grad():
        classifier.out.bias += 1
    assert torch.equal(inference(x), before)
    inference.copyWeightsToDevice()
    torch.testing.assert_close(inference(x), before + 1)


def test_S30_inference_takes_over_what_training_changed(classifier, batch, copies):
    inference = poptorch.inferenceModel(classifier)
    training = trainer(classifier)
    x, labels = batch(4)
    before = inference(x)
    training(x, labels)
    after = inference(x)
    assert not torch.equal(before, after)
    torch.testing.assert_close(after, classifier(x))
    inference(x)
    assert copies == ["download", "upload"]


def test_S30_load_state_dict_reaches_the_device(classifier, batch):
    x, _ = batch(4)
    inference = poptorch.inferenceModel(classifier)
    inference(x)
    zeros = {name: torch.zeros_like(value) for name, value in classifier.state_dict().items()}
    inference.load_state_dict(zeros)
    assert inference(x).abs().sum() == 0


def test_S31_buffers_of_inference_come_back_only_when_asked():
    norm = nn.BatchNorm1d(3)
    inference = poptorch.inferenceModel(norm)
    inference(torch.randn(8, 3) + 5)
    assert norm.running_mean.abs().sum() == 0
    inference.copyWeightsToHost()
    assert norm.running_mean.min() > 0.3


@pytest.mark.parametrize("method", ["copyWeightsToHost", "copyWeightsToDevice"])
def test_S32_copying_needs_a_compiled_model(classifier, method):
    with pytest.raises(poptorch.Error, match="has not been compiled or has been destroyed"):
        getattr(trainer(classifier), method)()


def test_S27_wrapping_twice_is_refused(classifier):
    training = trainer(classifier)
    with pytest.raises(RuntimeError, match="already been wrapped"):
        trainer(classifier)
    with pytest.raises(RuntimeError, match="already been wrapped"):
        trainer(training)
    classifier.destroy()
    trainer(classifier)


def test_S27_wrapping_changes_the_class_in_place_and_destroy_changes_it_back(classifier):
    before = type(classifier)
    training = trainer(classifier)
    assert isinstance(classifier, before)
    assert type(classifier) is not before
    training.destroy()
    assert type(classifier) is before
    assert {type(parameter) for parameter in classifier.parameters()} == {nn.Parameter}


class DropsOut(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        x = self.drop(x) * self.scale
        return x, poptorch.identity_loss(x, "sum")


def test_S28_modes_in_training_are_those_of_the_moment_of_wrapping():
    model = DropsOut().eval()
    training = poptorch.trainingModel(model)
    model.train()
    assert torch.equal(training(torch.ones(9))[0], torch.ones(9))
    assert model.drop.training


def test_S28_modes_in_inference_are_those_of_the_moment_of_compilation():
    model = nn.Sequential(nn.Dropout(0.5))
    inference = poptorch.inferenceModel(model)
    model.eval()
    inference.compile(torch.ones(9))
    model.train()
    assert torch.equal(inference(torch.ones(9)), torch.ones(9))


def test_S35_buffers_updated_in_place_persist():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(1))
            self.register_buffer("steps", torch.zeros(1, dtype=torch.int64))

        def forward(self, x):
            self.total += x.sum()
            self.steps += 1
            return self.total, self.steps

    inference = poptorch.inferenceModel(Counter())
    assert [inference(torch.ones(2))[0].item() for _ in range(3)] == [2, 4, 6]
    assert inference(torch.ones(2))[1].item() == 1, "integer buffers are constants on the device"


def test_S35_batch_normalisation_statistics_follow_training(train_plainly, assert_same_weights):
    class Normalised(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))

        def forward(self, x, labels):
            out = self.layers(x)
            return out, F.cross_entropy(out, labels)

    model = Normalised()
    reference = copy.deepcopy(model)
    inputs = torch.randn(12, 4), torch.randint(0, 3, (12,))
    options = poptorch.Options().deviceIterations(3)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.5)
    poptorch.trainingModel(model, options, optimizer)(*inputs)
    train_plainly(reference, torch.optim.SGD(reference.parameters(), lr=0.5), inputs, iterations=3)
    assert_same_weights(model, reference)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(4, 4)
        self.decode = nn.Linear(4, 4)
        self.decode.weight = self.encode.weight

    def forward(self, x):
        out = self.decode(self.encode(x))
        return out, F.mse_loss(out, x)


def test_S36_tied_weights_stay_tied(assert_same_weights, train_plainly):
    model = Tied()
    reference = copy.deepcopy(model)
    x = torch.randn(6, 4)
    trainer(model)(x)
    train_plainly(reference, torch.optim.SGD(reference.parameters(), lr=0.5), [x])
    assert model.decode.weight is model.encode.weight
    assert_same_weights(model, reference)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_S36_copies_of_a_wrapped_model_are_unwrapped_and_current(duplicate):
    model = Tied()
    x = torch.randn(6, 4)
    trainer(model)(x)
    twin = duplicate(model)
    assert type(twin) is Tied
    assert type(twin.encode.weight) is nn.Parameter
    assert twin.decode.weight is twin.encode.weight
    assert torch.equal(twin.encode.weight, model.encode.weight)


def test_S26_frozen_parameters_stay(classifier, batch):
    classifier.hidden.weight.requires_grad_(False)
    frozen, free = classifier.hidden.weight.clone(), classifier.out.weight.detach().clone()
    trainer(classifier)(*batch(4))
    assert torch.equal(classifier.hidden.weight, frozen)
    assert not torch.equal(classifier.out.weight, free)


@pytest.mark.parametrize("name", ["weight", "scale"])
def test_S34_weights_may_not_be_assigned_anew(name):
    class Assigns(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))
            self.register_buffer("scale", torch.ones(2))

        def forward(self, x):
            new = getattr(self, name) * 2
            setattr(self, name, nn.Parameter(new) if name == "weight" else new)
            return x * self.weight * self.scale

    model = Assigns()
    with pytest.raises(poptorch.Error, match=f"{name} is reassigned within the model"):
        poptorch.inferenceModel(model)(torch.ones(2))
    assert getattr(model, name).tolist() == [1, 1]
