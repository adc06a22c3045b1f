"""Every solution runs from top to bottom under nbval, and prints what its text says it prints."""

import subprocess
import sys

import nbformat
import pytest


def nbval(notebook):
    command = [sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-cell-timeout=120", "-p", "no:timeout"]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "--rootdir", str(notebook.parent), str(notebook)],
        capture_output=True,
        text=True,
        cwd=notebook.parent,
        timeout=280,
    )


def test_every_cell_of_a_solution_runs_and_marked_outputs_are_as_stored(built, lab):
    result = nbval(built / "source" / lab / f"{lab}.ipynb")
    assert result.returncode == 0, result.stdout[-3000:]


def test_a_lab_stores_outputs_to_compare(built, lab):
    cells = nbformat.read(built / "source" / lab / f"{lab}.ipynb", as_version=4).cells
    marked = [cell for cell in cells if "nbval-check-output" in cell.metadata.get("tags", [])]
    assert marked and all(cell.outputs for cell in marked)


@pytest.mark.parametrize("printed", ["2", "3"])
def test_nbval_notices_an_output_that_differs(tmp_path, printed):
    tags = {"tags": ["nbval-check-output"]}
    cell = nbformat.v4.new_code_cell("print(1 + 1)", metadata=tags, execution_count=1)
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=f"{printed}\n")]
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=metadata), tmp_path / "sum.ipynb")
    assert (nbval(tmp_path / "sum.ipynb").returncode == 0) == (printed == "2")
