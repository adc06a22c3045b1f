"""Records survive crashes, damage and folders that can't be written."""

import pytest

from techlabs.record import Record


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TECHLABS_HOME", str(tmp_path))
    return tmp_path


def test_what_is_put_is_there_in_the_next_session(home):
    Record("gpu_first").put("predictions", "calls", 22)
    assert Record("gpu_first").get("predictions", "calls") == 22


def test_two_open_notebooks_keep_each_others_entries(home):
    first, second = Record("gpu_first"), Record("gpu_first")
    first.put("checks", "x1", "passed")
    second.put("checks", "x2", "wrong")
    assert Record("gpu_first").items("checks") == {"x1": "passed", "x2": "wrong"}


@pytest.mark.parametrize("damage", ["{", "[1, 2]", '{"checks": 3}'])
def test_a_damaged_file_is_set_aside_and_kept(home, damage):
    (home / "gpu_first.json").write_text(damage)
    with pytest.warns(UserWarning, match="is damaged; it is kept as"):
        record = Record("gpu_first")
    record.put("checks", "x1", "passed")
    (kept,) = home.glob("*.damaged-*")
    assert kept.read_text() == damage


def test_a_folder_that_cannot_be_written_costs_the_record_and_not_the_lab(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TECHLABS_HOME", str(tmp_path / "file" / "below"))
    record = Record("gpu_first")
    with pytest.warns(UserWarning, match="Set TECHLABS_HOME"):
        record.put("checks", "x1", "passed")
    assert record.get("checks", "x1") == "passed"


@pytest.mark.parametrize("purpose", ["autograde", "validate"])
def test_a_notebook_that_nbgrader_runs_neither_sees_nor_changes_records(home, monkeypatch, purpose):
    Record("gpu_first").put("results", "test_accuracy", 0.99)
    monkeypatch.setenv("NBGRADER_EXECUTION", purpose)
    submission = Record("gpu_first")
    assert submission.items("results") == {}
    submission.put("results", "test_accuracy", 0.5)
    assert submission.get("results", "test_accuracy") == 0.5
    monkeypatch.delenv("NBGRADER_EXECUTION")
    assert Record("gpu_first").get("results", "test_accuracy") == 0.99
