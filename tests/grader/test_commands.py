"""From release to marks, as typed: `techlabs` commands, and plain `nbgrader` ones in the same tree."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader.apps.baseapp import NbGrader
from typer.testing import CliRunner

from techlabs.cli import app

LAB = "01_toy"
BIN = Path(sys.executable).parent
REPOSITORY = Path(__file__).parents[2]

# pytest hears what the settings silence: nbgrader's gradebook, and an argument that nbgrader misspells.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Object of type .* not in session"),
    pytest.mark.filterwarnings("ignore:Passing unrecognized arguments:DeprecationWarning"),
]


@pytest.fixture
def layout(make_layout, monkeypatch):
    """The toy course, as the one that commands find."""
    layout = make_layout()
    monkeypatch.setenv("TECHLABS_ROOT", str(layout.root))
    monkeypatch.delenv("TECHLABS_COURSE", raising=False)
    monkeypatch.delenv("TECHLABS_EXCHANGE", raising=False)
    monkeypatch.chdir(layout.root)
    return layout


def techlabs(*arguments: str) -> tuple[int, str, str]:
    """Status, output and complaints of a `techlabs` command."""
    result = CliRunner().invoke(app, arguments)
    return result.exit_code, result.stdout, result.stderr


def test_techlabs_commands_from_release_to_marks(layout, solved):
    assert techlabs("release", LAB)[:2] == (
        0,
        f"built labs/{LAB}\nreleased {LAB} to {layout.course / 'exchange'}\n",
    )
    nbformat.write(solved, layout.labs / LAB / f"{LAB}.ipynb")
    assert techlabs("submit", LAB, "--student", "ana")[:2] == (0, f"submitted {LAB} as ana\n")
    assert techlabs("collect", LAB)[1].startswith(f"collected 1 of {LAB}: ana\n")
    status, out, err = techlabs("grade", LAB)
    assert status == 0
    assert out == "student   marks     of  state\nana           5      5  graded\n"
    assert "1/1" in err
    status, out, _ = techlabs("feedback", LAB)
    assert (status, out) == (0, f"feedback for 1 in {layout.course / 'feedback'}\n")
    assert (layout.course / "feedback" / "ana" / LAB / f"{LAB}.html").is_file()
    assert len(list((layout.course / "exchange" / "techlabs" / "feedback").iterdir())) == 1
    assert techlabs("export", "marks.csv")[:2] == (0, "wrote marks.csv\n")
    assert ",5.0,0.0,5.0,5.0" in Path("marks.csv").read_text()


def test_build_and_its_check(layout, toy_source):
    status, _, err = techlabs("build", "--check")
    assert (status, err.splitlines()[0]) == (1, f"labs/{LAB}/{LAB}.ipynb: missing")
    assert techlabs("build")[:2] == (0, f"built labs/{LAB}\n")
    assert techlabs("build", "--check")[:2] == (0, "labs/ is what solutions/ makes\n")
    (layout.solutions / LAB / f"{LAB}.py").write_text(toy_source.replace("points=2", ""))
    where = f"solutions/{LAB}/{LAB}.py:34"
    status, _, err = techlabs("build")
    assert (status, err) == (1, f'{where}: check "double": points are missing or not a positive number\n')


def test_a_submission_before_the_release_is_explained(layout):
    techlabs("build")
    status, _, err = techlabs("submit", LAB)
    assert status == 1
    assert f"{LAB} was not submitted; was it released (`techlabs release {LAB}`)?" in err


def test_a_submission_that_cannot_be_graded_ends_with_status_1(layout):
    techlabs("release", LAB)
    folder = layout.course / "submitted" / "bob" / LAB
    folder.mkdir(parents=True)
    (folder / f"{LAB}.ipynb").write_text("")
    status, out, _ = techlabs("grade", LAB)
    assert status == 1
    assert out.splitlines()[-1] == f"bob: {LAB}.ipynb is empty; ask for a new submission"


def test_help_does_not_wait_for_nbgrader():
    code = "import sys, techlabs.cli; sys.exit('nbgrader' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_nbgrader_finds_the_settings_at_the_root_of_the_repository(monkeypatch, tmp_path):
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setenv("TECHLABS_COURSE", str(tmp_path))
    nbgrader = NbGrader()
    nbgrader.load_config_file()
    assert nbgrader.config.Autograde.sanitize_preprocessors[0] == "grader.repair.Repair"
    assert nbgrader.config.CourseDirectory.root == str(REPOSITORY)
    assert nbgrader.config.CourseDirectory.db_url == f"sqlite:///{tmp_path}/gradebook.db"


def test_plain_nbgrader_commands_work_in_the_same_tree(layout, solved):
    config = (REPOSITORY / "nbgrader_config.py").read_text()
    Path("nbgrader_config.py").write_text(config.replace("jupyter_config", f"{REPOSITORY}/jupyter_config"))
    techlabs("build")
    path = layout.labs / LAB / f"{LAB}.ipynb"
    built = path.read_bytes()

    def nbgrader(*arguments: str) -> str:
        environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(["nbgrader", *arguments], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    nbgrader("generate_assignment", LAB, "--force")
    assert path.read_bytes() == built
    nbgrader("release_assignment", LAB)
    nbformat.write(solved, path)
    nbgrader("submit", LAB, "--student", "ana")
    assert f"techlabs {LAB}" in nbgrader("list")
    nbgrader("collect", LAB)
    assert "warning" not in nbgrader("autograde", LAB).lower()
    nbgrader("generate_feedback", LAB)
    nbgrader("release_feedback", LAB)
    nbgrader("export", "--to", "marks.csv")
    assert ",5.0,0.0,5.0,5.0" in Path("marks.csv").read_text()
