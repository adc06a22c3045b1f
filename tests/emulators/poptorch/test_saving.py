"""Compiled models in files and in a cache."""

import pickle

import pytest
import torch
from torch import nn

import poptorch
from poptorch.executable import saving


class Fitted(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x, target=None):
        out = self.drop(self.fc(x))
        if target is None:
            return {"out": out}
        return out, nn.functional.cross_entropy(out, target)


ROWS, LABELS = torch.ones(2, 4), torch.tensor([0, 2])


def test_S39_a_file_holds_model_and_executable(tmp_path):
    model = poptorch.inferenceModel(Fitted().eval())
    expected = model(ROWS)["out"]
    model.save(tmp_path / "a.poptorch")
    loaded = poptorch.load(tmp_path / "a.poptorch")
    assert loaded.isCompiled()
    assert torch.equal(loaded(ROWS)["out"], expected)
    with pytest.raises(poptorch.Error, match="Shape mismatch"):
        loaded(torch.ones(3, 4))


def test_S39_training_goes_on_from_a_file(tmp_path):
    model = Fitted().eval()
    training = poptorch.trainingModel(model, optimizer=poptorch.optim.Adam(model.parameters(), lr=0.1))
    training(ROWS, LABELS)
    training.save(tmp_path / "a.poptorch")
    _, expected = training(ROWS, LABELS)
    loaded = poptorch.load(tmp_path / "a.poptorch")
    assert torch.equal(loaded(ROWS, LABELS)[1], expected)


def test_S39_a_folder_gets_a_file(tmp_path, caplog):
    poptorch.inferenceModel(Fitted()).compileAndExport(tmp_path, ROWS)
    assert (tmp_path / "model.poptorch").exists()
    assert "is a folder" in caplog.text


def test_S39_offline_options_are_dropped_and_others_may_be_edited(tmp_path):
    options = poptorch.Options().useOfflineIpuTarget()
    poptorch.inferenceModel(Fitted(), options).compileAndExport(tmp_path / "a", ROWS)
    loaded = poptorch.load(tmp_path / "a", edit_opts_fn=lambda options: options.modelName("edited"))
    assert loaded.options.model_name == "edited"
    loaded(ROWS)


def test_S39_an_executable_alone_goes_into_a_wrapped_model(tmp_path):
    traced = poptorch.inferenceModel(Fitted().eval())
    traced.compileAndExport(tmp_path / "a", ROWS, export_model=False)
    with pytest.raises(AssertionError, match="no model"):
        poptorch.load(tmp_path / "a")
    other = Fitted()
    wrapped = poptorch.inferenceModel(other)
    wrapped.loadExecutable(tmp_path / "a")
    # The executable was compiled without dropout, whatever mode this model is in.
    torch.testing.assert_close(wrapped(ROWS)["out"], other.fc(ROWS).detach())


def test_S39_versions_must_match(tmp_path, monkeypatch):
    monkeypatch.setattr(saving, "VERSION", "1.0")
    poptorch.inferenceModel(Fitted()).compileAndExport(tmp_path / "a", ROWS)
    monkeypatch.undo()
    with pytest.raises(AssertionError, match=r"1\.0.*3\.3"):
        poptorch.load(tmp_path / "a")
    with pytest.raises(poptorch.Error, match=r"1\.0.*3\.3"):
        poptorch.inferenceModel(Fitted()).loadExecutable(tmp_path / "a")


def test_S32_an_uncompiled_model_cannot_be_saved(tmp_path):
    with pytest.raises(poptorch.Error, match="has not been compiled"):
        poptorch.inferenceModel(Fitted()).save(tmp_path / "a")


def test_S39_a_model_that_cannot_be_imported_is_refused(tmp_path):
    class Local(nn.Module):
        def forward(self, x):
            return x + 1

    with pytest.raises(poptorch.Error, match="must be importable"):
        poptorch.inferenceModel(Local()).compileAndExport(tmp_path / "a", ROWS)
    poptorch.inferenceModel(Local()).compileAndExport(tmp_path / "a", ROWS, export_model=False)


def test_S38_random_numbers_are_saved_too(tmp_path):
    model = poptorch.inferenceModel(Fitted())
    model(ROWS)
    model.save(tmp_path / "a")
    expected = model(ROWS)["out"]
    assert torch.equal(poptorch.load(tmp_path / "a")(ROWS)["out"], expected)


def test_S36_a_wrapped_model_pickles_as_its_own_class():
    model = Fitted()
    poptorch.trainingModel(model)
    assert type(pickle.loads(pickle.dumps(model))) is Fitted


def test_S40_equal_models_share_an_executable(tmp_path):
    options = poptorch.Options().enableExecutableCaching(tmp_path / "cache")
    for _ in range(2):
        poptorch.inferenceModel(Fitted(), options).compile(ROWS)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    poptorch.inferenceModel(Fitted(), options.clone().deviceIterations(2)).compile(ROWS)
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_S40_the_ipu_model_is_not_cached(tmp_path, caplog):
    options = poptorch.Options().enableExecutableCaching(tmp_path / "cache").useIpuModel(True)
    poptorch.inferenceModel(Fitted(), options).compile(ROWS)
    assert not (tmp_path / "cache").exists()
    assert "no executable cache" in caplog.text
