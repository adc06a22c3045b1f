"""Hardware or model, devices and who holds them, logs."""

import pytest
import torch
from torch import nn

import poptorch
from poptorch.executable.device import Target


@pytest.fixture
def logged(caplog):
    poptorch.setLogLevel("DEBUG")
    yield caplog
    poptorch.setLogLevel("WARN")


@pytest.mark.parametrize(
    ("variables", "option", "is_model", "tiles"),
    [
        ({}, None, False, 1472),
        ({"POPTORCH_IPU_MODEL": "1"}, None, True, 1472),
        ({"POPTORCH_SMALL_IPU_MODEL": "1"}, None, True, 4),
        ({"POPTORCH_IPU_MODEL": "1", "POPTORCH_SMALL_IPU_MODEL": "1"}, None, True, 1472),
        ({"POPTORCH_IPU_MODEL": "1", "POPTORCH_IPU_MODEL_VERSION": "ipu1"}, None, True, 1216),
        ({"POPTORCH_IPU_MODEL": "1"}, False, False, 1472),
        ({}, True, True, 1472),
    ],
)
def test_S65_which_machine_it_is(monkeypatch, variables, option, is_model, tiles):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    options = poptorch.Options()
    if option is not None:
        options.useIpuModel(option)
    target = Target(options)
    assert (target.is_model, target.tiles) == (is_model, tiles)


def test_S65_an_unknown_generation_is_refused(monkeypatch):
    monkeypatch.setenv("POPTORCH_IPU_MODEL", "1")
    monkeypatch.setenv("POPTORCH_IPU_MODEL_VERSION", "ipu3")
    with pytest.raises(poptorch.Error, match="ipu1, ipu2, ipu21"):
        Target(poptorch.Options())


def test_S66_a_device_is_held_by_one_model(monkeypatch):
    options = poptorch.Options().useIpuId(40)
    first = poptorch.inferenceModel(nn.ReLU(), options)
    second = poptorch.inferenceModel(nn.ReLU(), options)
    first.compile(torch.ones(1))
    with pytest.raises(poptorch.Error, match=r"Failed to acquire 1 IPU\(s\)"):
        second.compile(torch.ones(1))
    first.detachFromDevice()
    second(torch.ones(1))
    second.destroy()
    assert first(torch.ones(1)) == 1


def test_S33_an_offline_model_is_only_compiled():
    model = poptorch.inferenceModel(nn.ReLU(), poptorch.Options().useOfflineIpuTarget(21))
    model.compile(torch.ones(1))
    assert model.isCompiled()
    assert not model.isAttachedToDevice()
    with pytest.raises(AssertionError, match="Trying to run a model on an offline device"):
        model(torch.ones(1))
    with pytest.raises(AssertionError, match="no IPU version 3"):
        poptorch.Options().useOfflineIpuTarget(3)


def test_S33_a_device_can_be_taken_on_demand(logged):
    options = poptorch.Options().connectionType(poptorch.ConnectionType.OnDemand)
    model = poptorch.inferenceModel(nn.ReLU(), options)
    model.compile(torch.ones(1))
    assert not model.isAttachedToDevice()
    assert "Attached" not in logged.text
    model(torch.ones(1))
    assert model.isAttachedToDevice()
    assert "Attached to device" in logged.text


@pytest.mark.parametrize(("level", "seen"), [("INFO", False), ("DEBUG", True), (1, True), (6, False)])
def test_S65_log_levels(caplog, level, seen):
    poptorch.setLogLevel(level)
    poptorch.inferenceModel(nn.ReLU()).compile(torch.ones(1))
    poptorch.setLogLevel("WARN")
    assert ("Finished Poplar compilation" in caplog.text) == seen


@pytest.mark.parametrize("level", ["LOUD", 9])
def test_S65_unknown_log_levels_are_refused(level):
    with pytest.raises(ValueError, match="There is no log level"):
        poptorch.setLogLevel(level)


def test_S65_a_line_says_when_where_and_how_bad(capfd):
    poptorch.setLogLevel("WARN")
    model = poptorch.inferenceModel(nn.ReLU())
    model.compile(torch.ones(1))
    model.compile(torch.ones(1))
    written = capfd.readouterr().err
    assert written.startswith("[")
    assert "] [poptorch] [warning] The model is compiled already" in written


def test_S38_random_numbers_can_be_saved_and_restored():
    model = poptorch.inferenceModel(nn.Dropout(0.5))
    with pytest.raises(poptorch.Error, match="has not been compiled"):
        _ = model.rng_state
    model.compile(torch.ones(50))
    state = model.rng_state
    first = model(torch.ones(50))
    assert not torch.equal(model(torch.ones(50)), first)
    model.rng_state = state
    assert torch.equal(model(torch.ones(50)), first)
    assert state[0] == model.rng_state[0]


def test_S49_hooks_are_called_around_compilation_in_order():
    calls = []
    handles = [poptorch.registerPreCompileHook(lambda: calls.append("before")) for _ in range(2)]
    handles.append(poptorch.registerPostCompileHook(lambda: calls.append("after")))
    removed = poptorch.registerPostCompileHook(lambda: calls.append("removed"))
    removed.remove()

    class Traced(nn.Module):
        def forward(self, x):
            calls.append("trace")
            return x + 1

    try:
        model = poptorch.inferenceModel(Traced())
        model(torch.ones(1))
        model(torch.ones(1))
    finally:
        for handle in handles:
            handle.remove()
    assert calls == ["before", "before", "trace", "after"]
    with pytest.raises(RuntimeError, match="must be callable"):
        poptorch.registerPreCompileHook("not callable")


def test_S70_recoverable_errors_say_how():
    error = poptorch.RecoverableError("link down", recovery_action="LINK_RESET")
    assert isinstance(error, poptorch.Error)
    assert (error.recovery_action, error.type) == ("LINK_RESET", "poplar_recoverable_runtime_error")
    with pytest.raises(AssertionError, match="FULL_RESET"):
        poptorch.RecoverableError("?", recovery_action="REBOOT")
    made = poptorch.createPoptorchError("what")
    assert str(made) == "'poptorch_py_error': what"
    assert str(poptorch.Error("m", "kind", "a.py:3")) == "a.py:3: 'kind': m"


def test_S31_only_named_buffers_are_refreshed():
    class Shifted(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("shift", torch.ones(1))
            self.register_buffer("scale", torch.ones(1))

        def forward(self, x):
            return x * self.scale + self.shift

    model = poptorch.inferenceModel(Shifted(), poptorch.Options().updatableNamedBuffers(["shift"]))
    assert model(torch.ones(1)) == 2
    model.shift.fill_(5)
    model.scale.fill_(7)
    assert model(torch.ones(1)) == 2
    model.copyNamedBuffersToDevice()
    assert model(torch.ones(1)) == 6
    without = poptorch.inferenceModel(Shifted())
    without(torch.ones(1))
    with pytest.raises(poptorch.Error, match="names none"):
        without.copyNamedBuffersToDevice()
    with pytest.raises(poptorch.Error, match="no such buffer"):
        poptorch.inferenceModel(Shifted(), poptorch.Options().updatableNamedBuffers(["x"]))(torch.ones(1))
