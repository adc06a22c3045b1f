"""Anchored tensors, counters, cycles, reports."""

import json
from datetime import timedelta

import pytest
import torch
from torch import nn

import poptorch
from poptorch import OutputMode

ROWS = torch.ones(4, 4)


class Scored(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 2)
        self.loss = nn.MSELoss()

    def forward(self, x, target):
        out = self.fc1(x)
        return out, self.loss(out, target)


def scorer(options=None):
    model = Scored()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return poptorch.trainingModel(model, options, optimizer)


def test_S16_names_of_tensors():
    training = scorer()
    with pytest.raises(AssertionError, match="Compile the model"):
        training.getTensorNames()
    training.compile(ROWS, ROWS[:, :2])
    names = training.getTensorNames()
    for start in ("input", "loss", "fc1/", "Gradient___fc1.weight", "UpdatedVar___fc1.bias", "Accl1___"):
        assert any(name.startswith(start) for name in names), start


def test_S16_gradients_and_updates_can_be_read():
    options = poptorch.Options().anchorTensor("grad", "Gradient___fc1.bias")
    options.anchorTensor("new", "UpdatedVar___fc1.bias")
    training = scorer(options)
    before = training.model.fc1.bias.detach().clone()
    training(ROWS, ROWS[:, :2])
    after = training.model.fc1.bias.detach()
    torch.testing.assert_close(training.getAnchoredTensor("new"), after)
    torch.testing.assert_close(training.getAnchoredTensor("grad"), (before - after) / 0.1)
    with pytest.raises(AssertionError, match="anchored as 'other'"):
        training.getAnchoredTensor("other")


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ((OutputMode.All,), [0, 1, 2, 3]),
        ((OutputMode.EveryN, 2), [1, 3]),
        ((OutputMode.Final,), 3),
        ((OutputMode.Sum,), 6),
    ],
)
def test_S16_modes_of_anchors(mode, expected):
    class Middle(nn.Module):
        def forward(self, x):
            return torch.relu(x).sum() * 2

    model = poptorch.inferenceModel(Middle())
    model.compile(torch.ones(1))
    name = next(name for name in model.getTensorNames() if "relu" in name)
    options = poptorch.Options().deviceIterations(4).anchorTensor("middle", name, *mode)
    anchored = poptorch.inferenceModel(Middle(), options)
    assert anchored(torch.arange(4.0)).tolist() == [0, 2, 4, 6]
    assert anchored.getAnchoredTensor("middle").squeeze(-1).tolist() == expected


def test_S16_unknown_tensors_are_refused():
    options = poptorch.Options().anchorTensor("a", "nothing/like/it")
    with pytest.raises(poptorch.Error, match="no tensor 'nothing/like/it'"):
        scorer(options)(ROWS, ROWS[:, :2])


def test_S67_cycles_need_the_option_and_a_run():
    with pytest.raises(poptorch.Error, match="Cycle count logging is disabled"):
        scorer().cycleCount()
    training = scorer(poptorch.Options().logCycleCount(True))
    training.compile(ROWS, ROWS[:, :2])
    with pytest.raises(poptorch.Error, match="run the model at least once"):
        training.cycleCount()
    training(ROWS, ROWS[:, :2])
    assert training.cycleCount() > 0
    model = poptorch.Options().logCycleCount(True).useIpuModel(True)
    with pytest.raises(poptorch.Error, match="only supported on actual IPU hardware"):
        scorer(model)(ROWS, ROWS[:, :2])


def test_S67_more_work_takes_more_cycles():
    def cycles(iterations):
        options = poptorch.Options().logCycleCount(True).deviceIterations(iterations)
        model = poptorch.inferenceModel(nn.Linear(4, 2), options)
        model(ROWS)
        return model.cycleCount()

    assert cycles(1) < cycles(2) < cycles(4)


def test_S68_compilation_time_is_told_after_compiling_with_a_progress_bar():
    model = poptorch.inferenceModel(nn.ReLU())
    with pytest.raises(poptorch.Error, match="compile the model before"):
        model.compilationTime()
    model.compile(ROWS)
    assert model.compilationTime() > timedelta(seconds=1)
    hidden = poptorch.inferenceModel(nn.ReLU(), poptorch.Options().showCompilationProgressBar(False))
    hidden.compile(ROWS)
    with pytest.raises(poptorch.Error, match="showCompilationProgressBar"):
        hidden.compilationTime()


@pytest.mark.parametrize(
    ("mode", "kept"),
    [((OutputMode.All,), 4), ((OutputMode.EveryN, 2), 2), ((OutputMode.Final,), 1), ((OutputMode.Sum,), 1)],
)
def test_S68_counters_have_an_entry_for_every_micro_batch(mode, kept):
    options = poptorch.Options().deviceIterations(4).outputMode(*mode)
    training = scorer(options)
    training(ROWS, ROWS[:, :2])
    counters = training.getPerfCounters()
    shapes = {event: (len(stamps), len(stamps[0])) for event, stamps in counters.items()}
    assert shapes == {
        "input": (2, 4),
        "input_complete": (2, 4),
        "output": (2, kept),
        "output_complete": (2, kept),
    }
    for shortest, longest, mean in (
        training.getHostIpuLatency(),
        training.getComputeLatency(),
        training.getIpuHostLatency(),
        training.getLatency(),
    ):
        assert 0 <= shortest <= mean <= longest


def test_synthetic_data_takes_nothing_from_the_host():
    model = poptorch.inferenceModel(nn.Identity(), poptorch.Options().enableSyntheticData(True))
    assert not torch.equal(model(ROWS), ROWS)
    assert model.getPerfCounters()["input"] == [[]]
    assert model.getLatency() == (0, 0, 0)


def test_S69_a_report_is_written_as_json(tmp_path):
    options = poptorch.Options().enableProfiling(tmp_path)
    poptorch.inferenceModel(nn.Linear(4, 2), options).compile(ROWS)
    report = json.loads((tmp_path / "inference" / "profile.pop").read_text())
    assert report["cycles_of_call"] > 0
    assert report["operations"]
    assert "modelled" in report["format"]


def test_S69_reports_have_the_models_name_and_the_environment_wins(tmp_path, monkeypatch, caplog):
    engine = {"autoReport.all": "true", "autoReport.directory": str(tmp_path / "env")}
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", json.dumps(engine))
    options = poptorch.Options().enableProfiling(tmp_path / "option").modelName("mine")
    poptorch.inferenceModel(nn.Linear(4, 2), options).compile(ROWS)
    assert (tmp_path / "env" / "mine" / "profile.pop").exists()
    assert not (tmp_path / "option").exists()
    assert "POPLAR_ENGINE_OPTIONS" in caplog.text


def test_channels_leave_methods_as_they_are():
    class Thing:
        def double(self, x):
            return 2 * x

    thing = poptorch.profiling.Channel("mine").instrument(Thing(), "double")
    assert thing.double(4) == 8


def test_comparing_structures():
    ones = torch.ones(2)
    assert poptorch.testing.allclose((ones, [ones]), (ones, [ones + 1e-9]))
    assert not poptorch.testing.allclose((ones, [ones]), (ones, [ones * 2]))
    assert not poptorch.testing.allclose([ones], [ones, ones])
