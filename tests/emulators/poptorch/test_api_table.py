"""The page that says which public names work tells the truth, and is the one that would be generated."""

import importlib.util
from pathlib import Path

import pytest

import poptorch

TABLE = Path(poptorch.__file__).parents[1] / "api_table.py"


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("api_table", TABLE)
    module = importlib.util.module_from_spec(spec)
    # Its dataclass looks its module up there.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(importlib.import_module("sys").modules, "api_table", module)
        spec.loader.exec_module(module)
        yield module


def test_the_page_is_current(table):
    assert table.PAGE.read_text() == table.page(), f"run: python {TABLE}"


def test_every_public_name_is_there(table):
    missing = [row.name for row in table.rows() if table.state_of(row) == table.MISSING]
    assert not missing


def test_names_that_only_raise_are_told_from_names_that_work(table):
    def raises():
        """Says so."""
        raise poptorch.Error("not emulated")

    assert table.only_raises(raises)
    assert not table.only_raises(poptorch.Options.deviceIterations)
    assert not table.only_raises(poptorch.Options)


def test_what_raises_raises_poptorchs_error(table):
    raising = [row.name for row in table.rows() if table.state_of(row) == table.RAISES]
    assert raising
    with pytest.raises(poptorch.Error, match="not emulated"):
        poptorch.ctc_beam_search_decoder(None, None)
    with pytest.raises(poptorch.Error, match="internal"):
        poptorch.PipelinedExecution().onStartTracing()


def test_public_names_of_the_package_are_listed(table):
    listed = {row.name.split(".")[1] for row in table.rows() if row.name.startswith("poptorch.")}
    ours = {"register_custom_op", "SerializationMode"}
    assert set(poptorch.__all__) - listed - ours == set()
