"""The project's own promises: one list of versions, one lock, a README whose commands exist."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def locked():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    pins = (Requirement(line) for line in lines if line and not line.startswith((" ", "#")))
    return {pin.name.lower().replace("_", "-"): pin for pin in pins}


def test_conda_takes_every_version_from_the_one_list():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert pip == ["-r requirements.txt"]
    assert [re.split("[=<>]", entry)[0] for entry in conda] == ["python", "pip"]


def test_conda_and_pip_agree_on_python():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (python,) = [e for e in environment["dependencies"] if isinstance(e, str) and e.startswith("python=")]
    lock_head = (ROOT / "requirements.txt").read_text().splitlines()[1]
    assert python.removeprefix("python=") in lock_head


def test_every_version_is_locked_to_one_release():
    for name, pin in locked().items():
        (specifier,) = pin.specifier
        assert specifier.operator == "==" and "+" not in specifier.version, name


def test_torch_is_the_release_of_the_plan():
    assert str(locked()["torch"].specifier) == "==2.13.0"


@pytest.mark.parametrize("group", ["dependencies", "course", "dev"])
def test_the_lock_satisfies_what_the_project_asks_for(group):
    asked = PROJECT["dependencies"] if group == "dependencies" else PROJECT["optional-dependencies"][group]
    for requirement in map(Requirement, asked):
        (pin,) = locked()[requirement.name.lower()].specifier
        assert requirement.specifier.contains(pin.version), requirement


def test_the_readme_names_commands_that_exist():
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"\bmake ([a-z]+)", readme)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_ci_runs_the_command_of_the_readme():
    assert "make test" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", (ROOT / page).read_text()):
        assert ((ROOT / page).parent / target).exists(), target


def test_imports_run_one_way():
    """labs -> techlabs -> emulators, grader -> techlabs; an emulator imports nothing of ours."""
    forbidden = {"techlabs": "grader", "emulators": "techlabs|grader"}
    for folder, names in forbidden.items():
        for path in (ROOT / folder).rglob("*.py"):
            found = re.findall(rf"^\s*(?:from|import) (?:{names})\b.*", path.read_text(), re.MULTILINE)
            assert not found, f"{path}: {found}"
