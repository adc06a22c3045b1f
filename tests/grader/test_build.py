"""From text source to learner's notebook."""

import json
import re
import shutil
import subprocess

import nbformat
import pytest

from grader import build as builder
from grader.build import BuildError, build, differences, leaks

LAB = "01_toy"


def released(layout):
    return nbformat.read(layout.labs / LAB / f"{LAB}.ipynb", as_version=4)


def source(layout):
    return nbformat.read(layout.source / LAB / f"{LAB}.ipynb", as_version=4)


def test_a_build_is_byte_identical_every_time(make_layout):
    layout = make_layout()
    paths = [folder / LAB / f"{LAB}.ipynb" for folder in (layout.labs, layout.source)]
    assert build(layout) == [f"built labs/{LAB}"]
    first = [path.read_bytes() for path in paths]
    build(layout)
    assert [path.read_bytes() for path in paths] == first


def test_the_file_has_sorted_keys_indent_1_and_a_newline_at_the_end(make_layout):
    layout = make_layout()
    build(layout)
    text = (layout.labs / LAB / f"{LAB}.ipynb").read_text()
    assert text == json.dumps(json.loads(text), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def test_cell_ids_come_from_the_graded_cells(toy_notebook):
    assert [cell.id for cell in toy_notebook.cells] == [
        "top-1",
        "top-2",
        "double",
        "double-check",
        "double-check-1",
        "triple",
        "triple-check",
    ]


def test_the_short_forms_become_nbgraders_metadata(toy_notebook):
    cells = {cell.id: cell for cell in toy_notebook.cells}
    answer, check = cells["double"].metadata.nbgrader, cells["double-check"].metadata.nbgrader
    wanted = {"grade_id": "double", "grade": False, "solution": True, "locked": False, "schema_version": 3}
    assert {key: answer[key] for key in wanted} == wanted
    wanted = {"grade_id": "double-check", "grade": True, "solution": False, "locked": True, "points": 2}
    assert {key: check[key] for key in wanted} == wanted


def test_learners_get_stubs_and_visible_tests_only(toy_notebook):
    cells = {cell.id: cell.source for cell in toy_notebook.cells}
    stub = 'def double(x):\n    """Twice x."""\n    raise NotImplementedError("your code here")'
    assert cells["double"] == stub
    assert cells["double-check"] == 'lab.check("double", double)'
    assert all(not cell.get("outputs") for cell in toy_notebook.cells)


def test_the_notebook_carries_no_trace_of_the_tools(toy_notebook):
    assert set(toy_notebook.metadata) == {"kernelspec", "language_info", "techlabs"}
    assert toy_notebook.metadata.kernelspec.name == "python3"
    assert (toy_notebook.nbformat, toy_notebook.nbformat_minor) == (4, 5)
    assert "lines_to_next_cell" not in json.dumps(toy_notebook)


def test_facts_are_a_table_of_the_header_and_the_points(toy_notebook):
    assert toy_notebook.cells[0].source.splitlines()[2:] == [
        "| Minutes | Machine seconds | Device | Prerequisites | Points |",
        "| --- | --- | --- | --- | --- |",
        r"| 5 | 1 | any \| all | nothing | 5 |",
    ]


def test_stored_output_belongs_to_the_source_notebook_alone(make_layout):
    layout = make_layout()
    build(layout)
    cell = source(layout).cells[1]
    assert cell.source.endswith("base = 10\nprint(base)\nprint()")
    assert [(output.name, output.text) for output in cell.outputs] == [("stdout", "10\n\n")]
    learners = released(layout).cells[1]
    assert learners.source == cell.source
    assert learners.metadata.tags == ["nbval-check-output"]


def test_only_figures_and_data_go_along(make_layout):
    layout = make_layout()
    folder = layout.solutions / LAB
    for path in ("hidden.py", "answers.py", "instructor.md", "figures/one.svg", "data/deep/two.csv"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    build(layout)
    files = sorted(path.relative_to(layout.labs / LAB).as_posix() for path in layout.labs.rglob("*.*"))
    assert files == [f"{LAB}.ipynb", "data/deep/two.csv", "figures/one.svg"]
    (folder / "figures" / "one.svg").unlink()
    build(layout)
    assert not (layout.labs / LAB / "figures" / "one.svg").exists()


def test_a_lab_without_a_source_is_removed(make_layout, toy_source):
    layout = make_layout()
    build(layout)
    shutil.rmtree(layout.solutions / LAB)
    (layout.solutions / "02_toy").mkdir()
    (layout.solutions / "02_toy" / "02_toy.py").write_text(toy_source)
    assert f"removed labs/{LAB}, which has no source" in build(layout)
    assert [path.name for path in layout.labs.iterdir()] == ["02_toy"]


def test_one_lab_can_be_built_alone(make_layout, toy_source):
    layout = make_layout()
    (layout.solutions / "02_toy").mkdir()
    (layout.solutions / "02_toy" / "02_toy.py").write_text(toy_source)
    build(layout)
    assert build(layout, ["02_toy"]) == ["built labs/02_toy"]
    assert (layout.labs / LAB).is_dir()


def test_a_failing_build_leaves_labs_as_they_were(make_layout, toy_source, monkeypatch):
    layout = make_layout()
    build(layout)
    before = {path: path.read_bytes() for path in layout.labs.rglob("*") if path.is_file()}
    (layout.solutions / LAB / f"{LAB}.py").write_text(toy_source.replace("More.", "Less."))
    monkeypatch.setattr(builder, "leaks", lambda source, released: ['lab.grade("double", double)'])
    with pytest.raises(BuildError, match=r"would give away:\n  lab\.grade\(\"double\", double\)"):
        build(layout)
    assert {path: path.read_bytes() for path in layout.labs.rglob("*") if path.is_file()} == before


def test_a_notebook_that_someone_worked_in_is_kept(make_layout):
    layout = make_layout()
    build(layout)
    path = layout.labs / LAB / f"{LAB}.ipynb"
    worked_in = path.read_text().replace("More.", "My notes.")
    path.write_text(worked_in)
    kept = re.search(r"had been edited; it is kept as (\S+)", "\n".join(build(layout)))
    assert (layout.root / kept[1]).read_text() == worked_in
    assert build(layout) == [f"built labs/{LAB}"]


@pytest.mark.parametrize(
    "line",
    [
        'lab.grade("double", double)',
        "    return 2 * x",
        "### BEGIN HIDDEN TEST",
        "# End  Solution",
        "#begin hiddentests",
    ],
)
def test_the_leak_check_finds_what_must_not_reach_learners(make_layout, line):
    layout = make_layout()
    build(layout)
    notebook = released(layout)
    assert leaks(source(layout), notebook) == []
    notebook.cells[0].source += f"\n{line}"
    assert leaks(source(layout), notebook) == [line.strip()]


def test_a_line_that_stands_in_a_public_cell_too_is_no_leak(make_layout, toy_source):
    layout = make_layout(
        toy_source.replace("base = 10", "base = 10\nassert base").replace(
            'lab.grade("double", double)', 'lab.grade("double", double)\nassert base'
        )
    )
    build(layout)
    assert "assert base" in released(layout).cells[1].source


class TestCheck:
    """`build --check`, by `differences`."""

    def test_elsewhere_the_files_on_disk_count(self, make_layout, toy_source):
        layout = make_layout()
        assert differences(layout) == [f"labs/{LAB}/{LAB}.ipynb: missing"]
        build(layout)
        assert differences(layout) == []
        (layout.labs / LAB / "notes.txt").write_text("a learner's own")
        assert differences(layout) == []
        (layout.solutions / LAB / f"{LAB}.py").write_text(toy_source.replace("More.", "Less."))
        assert differences(layout) == [f"labs/{LAB}/{LAB}.ipynb: differs from solutions/{LAB}"]

    def test_in_a_git_work_tree_the_index_counts(self, make_layout):
        layout = make_layout()
        subprocess.run(["git", "init", "--quiet"], cwd=layout.root, check=True)
        build(layout)
        assert differences(layout) == [f"labs/{LAB}/{LAB}.ipynb: missing"]
        subprocess.run(["git", "add", "labs"], cwd=layout.root, check=True)
        (layout.labs / LAB / f"{LAB}.ipynb").write_text("a learner's edits")
        assert differences(layout) == []
        stale = layout.labs / LAB / "figures" / "stale.svg"
        stale.parent.mkdir()
        stale.write_text("")
        subprocess.run(["git", "add", "labs"], cwd=layout.root, check=True)
        assert differences(layout) == [
            f"labs/{LAB}/{LAB}.ipynb: differs from solutions/{LAB}",
            f"labs/{LAB}/figures/stale.svg: not made by any source",
        ]

    def test_it_changes_nothing(self, make_layout):
        layout = make_layout()
        differences(layout)
        assert not layout.labs.exists()
        assert list(layout.scratch.iterdir()) == []
