import pytest


@pytest.fixture(autouse=True, scope="session")
def own_records(tmp_path_factory):
    """No test reads or writes the records of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TECHLABS_HOME", str(tmp_path_factory.mktemp("records")))
        yield
