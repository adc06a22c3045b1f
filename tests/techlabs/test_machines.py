"""The bench says what runs a lab, and never calls an emulator a chip."""

import pytest
from typer.testing import CliRunner

import techlabs
from techlabs import machines as module
from techlabs.cli import app
from techlabs.machines import BenchError


def test_the_ipu_is_announced_as_emulated():
    bench = techlabs.bench("ipu")
    assert bench.backend == "emulator"
    assert "emulated IPU" in repr(bench) and "techlabs-poptorch" in repr(bench)


def test_the_gpu_bench_gives_a_device_that_works():
    import torch

    bench = techlabs.bench("gpu")
    assert bench.backend == ("hardware" if torch.cuda.is_available() else "stand-in")
    assert torch.ones(2, device=bench.device).sum() == 2


def test_an_unknown_machine_names_the_known_ones():
    with pytest.raises(BenchError, match="gpu, ipu"):
        techlabs.bench("tpu")


def test_a_missing_poptorch_says_what_to_do(monkeypatch):
    monkeypatch.setattr(module, "poptorch_backend", lambda: None)
    with pytest.raises(BenchError, match="make start"):
        techlabs.bench("ipu")


def test_the_vendors_package_wins_over_the_emulator(tmp_path, monkeypatch):
    (tmp_path / "poptorch-3.3.0.dist-info").mkdir()
    (tmp_path / "poptorch-3.3.0.dist-info" / "METADATA").write_text("Name: poptorch\nVersion: 3.3.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    bench = techlabs.bench("ipu")
    assert bench.backend == "hardware"
    assert "poptorch 3.3.0" in repr(bench)


def test_the_doctor_says_plainly_that_the_ipu_is_emulated():
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 0, result.output
    (line,) = [line for line in result.output.splitlines() if "IPU" in line]
    assert line.startswith("ok") and "emulat" in line


def test_the_doctor_tells_which_box_submissions_run_in():
    result = CliRunner().invoke(app, ["doctor"])
    (line,) = [line for line in result.output.splitlines() if "  box " in line]
    assert "bubblewrap" in line


def test_the_doctor_fails_when_a_lab_could_not_run(monkeypatch):
    monkeypatch.setattr(module, "poptorch_backend", lambda: None)
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "MISS  IPU" in result.output
