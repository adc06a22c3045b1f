"""What the device keeps for an optimizer, as the learner sees, saves and loads it."""

import pytest
import torch

import poptorch


def wrapped_with(classifier, kind="Adam", **arguments):
    optimizer = getattr(poptorch.optim, kind)(classifier.parameters(), **{"lr": 0.1, **arguments})
    return poptorch.trainingModel(classifier, optimizer=optimizer), optimizer


def test_S24_before_compilation_there_is_none(classifier):
    _, optimizer = wrapped_with(classifier)
    state = optimizer.state_dict()
    assert {"state", "param_groups", "ipu_state", "ipu_param"} == set(state)
    assert state["ipu_state"] is None
    assert not optimizer.has_state()


def test_S24_names_of_adams_state(classifier, batch):
    training, optimizer = wrapped_with(classifier, weight_decay=0.025, loss_scaling=0.75)
    training.compile(*batch(4))
    state = optimizer.state_dict()
    assert set(state["ipu_state"]) >= {"Accl1___out.weight", "Accl2___out.weight", "Step___out.weight"}
    assert state["ipu_param"]["learningRate___specific___out.bias"] == pytest.approx(0.1)
    assert state["ipu_param"]["weightDecay___specific___out.bias"] == pytest.approx(0.025)
    assert state["ipu_param"]["lossScaling_FLOAT"] == 0.75
    assert "eps___specific___out.bias" not in state["ipu_param"], "constants are part of the program"


def test_S24_names_of_plain_sgds_state(classifier, batch):
    training, optimizer = wrapped_with(classifier, "SGD", weight_decay=0.2, loss_scaling=4.0)
    training.compile(*batch(4))
    state = optimizer.state_dict()
    assert state["ipu_state"] == {}
    param = state["ipu_param"]
    assert param["scaledLearningRate0___specific___out.bias"] == pytest.approx(0.1 / 4)
    assert param["weightDecayScaleFactor0___specific___out.bias"] == pytest.approx(1 - 0.1 * 0.2)


def test_S24_state_is_read_when_asked_for_and_kept_until_it_changes(classifier, batch, caplog):
    training, optimizer = wrapped_with(classifier)
    training(*batch(4))
    poptorch.setLogLevel("DEBUG")
    try:
        first = optimizer.state_dict()
        optimizer.state_dict()
        assert caplog.text.count("state tensors from IPU to host") == 1
        training(*batch(4))
        assert caplog.text.count("state tensors from IPU to host") == 1
        second = optimizer.state_dict()
    finally:
        poptorch.setLogLevel("WARN")
    assert first["ipu_state"]["Step___out.bias"] == 1
    assert second["ipu_state"]["Step___out.bias"] == 2


def test_S24_loaded_state_is_what_the_device_goes_on_with(classifier, batch):
    training, optimizer = wrapped_with(classifier)
    inputs = batch(4)
    training(*inputs)
    saved, weights = optimizer.state_dict(), {k: v.clone() for k, v in classifier.state_dict().items()}
    training(*inputs)
    expected = classifier.out.bias.detach().clone()
    training(*inputs)
    optimizer.load_state_dict(saved)
    training.load_state_dict(weights)
    training(*inputs)
    torch.testing.assert_close(classifier.out.bias.detach(), expected)


def test_S24_entries_that_are_missing_stay_as_they_are(classifier, batch):
    training, optimizer = wrapped_with(classifier)
    training(*batch(4))
    state = optimizer.state_dict()
    moment = state["ipu_state"].pop("Accl1___out.bias")
    optimizer.load_state_dict(state)
    assert "Accl1___out.bias" not in optimizer.state_dict()["ipu_state"]
    training(*batch(4))
    again = optimizer.state_dict()["ipu_state"]["Accl1___out.bias"]
    assert again.shape == moment.shape


@pytest.mark.parametrize("state", [{}, "torch"])
def test_S24_only_a_devices_state_can_be_loaded(classifier, state):
    optimizer = poptorch.optim.Adam(classifier.parameters())
    state = torch.optim.Adam(classifier.parameters()).state_dict() if state == "torch" else state
    with pytest.raises(RuntimeError, match=r"Cannot load an empty|Only IPU optimizer states"):
        optimizer.load_state_dict(state)


def test_S33_state_survives_destroy(classifier, batch):
    training, optimizer = wrapped_with(classifier)
    training(*batch(4))
    training.destroy()
    again = poptorch.trainingModel(classifier, optimizer=optimizer)
    again(*batch(4))
    assert optimizer.state_dict()["ipu_state"]["Step___out.bias"] == 2


def test_S33_state_goes_to_another_optimizer_through_a_file(classifier, batch, tmp_path):
    training, optimizer = wrapped_with(classifier)
    training(*batch(4))
    torch.save(optimizer.state_dict(), tmp_path / "optimizer.pt")
    training.destroy()
    other = poptorch.optim.Adam(classifier.parameters(), lr=0.5)
    other.load_state_dict(torch.load(tmp_path / "optimizer.pt"))
    assert other.param_groups[0]["lr"] == 0.1
    poptorch.trainingModel(classifier, optimizer=other)(*batch(4))
    assert other.state_dict()["ipu_state"]["Step___out.bias"] == 2


def test_S24_an_offline_target_has_no_state(classifier, batch):
    optimizer = poptorch.optim.Adam(classifier.parameters())
    options = poptorch.Options().useOfflineIpuTarget()
    poptorch.trainingModel(classifier, options, optimizer).compile(*batch(4))
    assert optimizer.state_dict()["ipu_state"] is None
