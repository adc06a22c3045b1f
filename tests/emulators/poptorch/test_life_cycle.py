"""A wrapped model from compilation to destruction."""

import copy

import pytest
import torch
from torch import nn

import poptorch


def trainer(model, lr=0.5, momentum=0.9):
    optimizer = poptorch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    return poptorch.trainingModel(model, optimizer=optimizer)


def test_forward_is_traced_once():
    traces = []

    class Counted(nn.Module):
        def forward(self, x):
            traces.append(x.shape)
            return x

    inference = poptorch.inferenceModel(Counted(), poptorch.Options().deviceIterations(2))
    for _ in range(3):
        inference(torch.ones(4))
    assert len(traces) == 1


def test_compile_runs_nothing(classifier, batch):
    training = trainer(classifier)
    before = copy.deepcopy(classifier.state_dict())
    training.compile(*batch(4))
    assert training.isCompiled()
    assert training.isAttachedToDevice()
    assert all(torch.equal(value, before[name]) for name, value in classifier.state_dict().items())


def test_S32_compiling_twice_only_warns(classifier, batch, caplog):
    training = trainer(classifier)
    training.compile(*batch(4))
    training.compile(*batch(4))
    assert "compiled already" in caplog.text


def test_S7_after_destroy_a_new_shape_compiles(classifier, batch):
    training = trainer(classifier)
    training(*batch(4))
    with pytest.raises(poptorch.Error):
        training(*batch(6))
    training.destroy()
    assert not training.isCompiled()
    training(*batch(6))


def test_S33_destroy_leaves_trained_weights(classifier, batch, train_plainly, assert_same_weights):
    reference = copy.deepcopy(classifier)
    inputs = batch(4)
    training = trainer(classifier)
    training(*inputs)
    training.destroy()
    train_plainly(reference, torch.optim.SGD(reference.parameters(), lr=0.5, momentum=0.9), inputs)
    assert_same_weights(classifier, reference)
    with pytest.raises(poptorch.Error, match="destroyed"):
        training.copyWeightsToHost()


def test_S33_an_uncompiled_model_can_be_destroyed(classifier):
    trainer(classifier).destroy()
    trainer(classifier)


def test_S33_training_goes_on_after_detaching(classifier, batch, train_plainly, assert_same_weights):
    reference = copy.deepcopy(classifier)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.5, momentum=0.9)
    inputs = batch(4)
    training = trainer(classifier)
    training(*inputs)
    training.detachFromDevice()
    assert not training.isAttachedToDevice()
    training(*inputs)
    assert training.isAttachedToDevice()
    for _ in range(2):
        train_plainly(reference, optimizer, inputs)
    assert_same_weights(classifier, reference)


def test_S33_weights_edited_while_detached_are_uploaded(classifier, batch):
    x, _ = batch(4)
    inference = poptorch.inferenceModel(classifier)
    inference(x)
    inference.detachFromDevice()
    with torch.no_grad():
        classifier.out.bias += 1
    torch.testing.assert_close(inference(x), classifier(x))


def test_S33_detaching_inference_leaves_the_hosts_weights(classifier, batch):
    inference = poptorch.inferenceModel(classifier)
    inference(batch(4)[0])
    with torch.no_grad():
        classifier.out.bias.fill_(3)
    inference.detachFromDevice()
    assert classifier.out.bias.unique().tolist() == [3]


def test_S33_attaching_twice_or_detaching_twice_is_refused(classifier, batch):
    training = trainer(classifier)
    training(*batch(4))
    with pytest.raises(poptorch.Error, match="already attached"):
        training.attachToDevice()
    training.detachFromDevice()
    with pytest.raises(poptorch.Error, match="Device is not attached"):
        training.detachFromDevice()
    training.attachToDevice()


def test_S37_running_on_ipu_only_inside_forward():
    answers = []

    class Asks(nn.Module):
        def __init__(self):
            super().__init__()
            answers.append(poptorch.isRunningOnIpu())

        def forward(self, x):
            answers.append(poptorch.isRunningOnIpu())
            return x

    model = Asks()
    poptorch.inferenceModel(model)(torch.ones(1))
    model(torch.ones(1))
    assert answers == [False, True, False]


def test_S38_the_same_seed_repeats_the_run():
    def run(seed):
        options = poptorch.Options().deviceIterations(3).randomSeed(seed)
        model = poptorch.inferenceModel(nn.Dropout(0.5), options)
        return [model(torch.ones(60)).tolist() for _ in range(2)]

    first, second = run(1)
    assert first != second
    assert run(1) == [first, second]
    assert run(2) != [first, second]


def test_S38_device_and_host_draw_from_different_sequences():
    model = poptorch.inferenceModel(nn.Dropout(0.5))
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    model(torch.ones(60))
    assert torch.equal(torch.rand(4), expected)


def test_attributes_are_those_of_the_model(classifier):
    training = trainer(classifier)
    assert training.hidden is classifier.hidden
    assert training.model is classifier
    assert repr(training) == repr(classifier)
    with pytest.raises(AttributeError):
        _ = training.nothing


def test_hardware_is_available_unless_the_model_is_asked_for(monkeypatch):
    assert poptorch.ipuHardwareIsAvailable()
    assert not poptorch.ipuHardwareIsAvailable(65)
    assert poptorch.ipuHardwareVersion() == 2
    monkeypatch.setenv("POPTORCH_IPU_MODEL", "1")
    assert not poptorch.ipuHardwareIsAvailable()


def test_S70_errors_have_a_plain_message_and_a_type():
    error = poptorch.Error("what happened")
    assert (error.message, error.type) == ("what happened", "poptorch_py_error")
    assert str(error) == "'poptorch_py_error': what happened"
