"""An untouched copy runs from top to bottom: every check says "not attempted", nothing fails."""

import nbformat
from nbclient import NotebookClient


def test_every_check_of_an_untouched_copy_says_not_attempted(built, lab):
    notebook = nbformat.read(built / "release" / lab / f"{lab}.ipynb", as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(built)}}).execute()
    checks = {cell.id: _text(cell) for cell in notebook.cells if cell.id.endswith("-check")}
    assert len(checks) >= 4
    for cell_id, text in checks.items():
        exercise = cell_id.removesuffix("-check")
        assert text.startswith(f"{exercise} not attempted"), f"{lab} {cell_id}: {text}"
        assert "still to do: line" in text and 'raise NotImplementedError("your code here")' in text


def _text(cell):
    return "".join(
        output.text if output.output_type == "stream" else output.get("data", {}).get("text/plain", "")
        for output in cell.outputs
    )
