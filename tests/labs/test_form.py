"""Every lab has the house form: its sections, its budget, an alternative text for every picture."""

import re

import nbformat
import pytest

from techlabs import Lab

SECTIONS = (
    "Situation",
    "You will be able to",
    "Check your bench",
    "What you already know",
    "Predict",
    "How this machine is built",
    "Worked example",
    "x1:",
    "x2:",
    "Break it on purpose",
    "x3:",
    "x4:",
    "Compare",
    "Key points",
    "Talk to your neighbour",
)


@pytest.fixture
def notebook(built, lab):
    return nbformat.read(built / "release" / lab / f"{lab}.ipynb", as_version=4)


@pytest.fixture
def text(notebook):
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def test_sections_come_in_the_order_of_the_house(text):
    places = [text.find(section) for section in SECTIONS]
    assert -1 not in places, SECTIONS[places.index(-1)]
    assert places == sorted(places)


def test_a_lab_keeps_its_budget_of_cells_and_words(notebook, text):
    assert 25 <= len(notebook.cells) <= 35
    assert len(text.split()) <= 1200


def test_the_situation_takes_eighty_words_at_most(text):
    situation = re.search(r"\*\*Situation\.\*\*(.*?)\n\n", text, re.DOTALL)[1]
    assert len(situation.split()) <= 80


def test_cells_stay_short(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "code":
            limit = 15 if cell.metadata.get("nbgrader", {}).get("solution") else 25
            assert len(cell.source.splitlines()) <= limit, cell.source


def test_pictures_in_the_text_have_alternative_texts(text):
    assert not re.findall(r"!\[\]\(|<img(?![^>]*alt=)", text)


def test_links_to_files_lead_somewhere(built, lab, text):
    for target in re.findall(r"\]\((?!https?://|#)([^)]+)\)", text):
        assert (built / "release" / lab / target).exists(), target


def test_every_exercise_has_a_title_three_hints_and_cases_of_unequal_size(lab):
    exercises = Lab(lab.split("_", 1)[1])._exercises.values()
    for exercise in exercises:
        assert exercise.title
        assert len(exercise.hints) == 3
        assert exercise.cases


def test_the_same_exercise_has_the_same_objective_on_every_machine(built):
    objectives = {}
    for path in sorted((built / "release").glob("*/*.ipynb")):
        first = nbformat.read(path, as_version=4).cells[0].source
        found = re.findall(r"^\d\. (.*?) \((?:exercise )?(x\d)\)", first, re.MULTILINE)
        assert [name for _, name in found] == ["x1", "x2", "x3", "x4"], path.stem
        # 12_gpu_feeding and 22_ipu_feeding differ in the machine, not in what is learned.
        objectives.setdefault(path.stem.split("_")[-1], {})[path.stem] = tuple(found)
    for labs in objectives.values():
        assert len(set(labs.values())) == 1, labs
