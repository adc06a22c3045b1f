import pytest

from grader.build import generate, lab_names
from grader.layout import Layout

LAYOUT = Layout.find()
LABS = lab_names(LAYOUT)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Fresh notebooks of all labs: built/source/NN/NN.ipynb and built/release/NN/NN.ipynb."""
    folder = tmp_path_factory.mktemp("built")
    generate(LAYOUT, LABS, folder / "source", folder / "release")
    return folder


@pytest.fixture(params=LABS)
def lab(request):
    """Each lab in turn, by the name of its folder."""
    return request.param
