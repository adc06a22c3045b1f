"""What a boxed kernel can see and do, asked from inside; and what ends it from outside."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from traitlets.config import Config

from grader import sandbox
from grader.kernel import submission_kernel
from grader.sandbox import Limits, NoBox

ROOT = Path(__file__).parents[2]
PROBE = """\
import json, os, socket, subprocess
def tried(action):
    try:
        return str(action())
    except Exception as error:
        return type(error).__name__
print(json.dumps({
    "files": sorted(os.listdir(".")),
    "root": sorted(os.listdir(os.environ["TECHLABS_ROOT"])),
    "home": os.listdir(os.environ["HOME"]),
    "environment": dict(os.environ),
    "first process": open("/proc/1/environ").read(),
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
    "network": tried(lambda: socket.create_connection(("192.0.2.1", 80), 1)),
    "system": tried(lambda: open("/usr/written", "w")),
    "packages": tried(lambda: open(json.__file__, "a")),
    "large file": tried(lambda: open("large", "wb").write(bytes(70 << 20))),
    "capabilities": [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")],
    "namespaces": subprocess.run(["unshare", "-U", "true"], capture_output=True).returncode,
}))
"""


def run(source: str, folder: Path, limits: Limits, root: Path = ROOT) -> tuple[object, str]:
    """The manager of a boxed kernel that ran a cell, and what the cell printed."""
    manager = submission_kernel("python3", Config(), root, limits)
    notebook = new_notebook(cells=[new_code_cell(source)])
    client = NotebookClient(notebook, km=manager, timeout=120, allow_errors=True)
    client.owns_km = True
    try:
        client.execute(cwd=str(folder))
    except Exception:
        assert manager.reason, "only the warden may end it"
    return manager, "".join(output.get("text", "") for output in notebook.cells[0].get("outputs", []))


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """What a kernel sees from a box in which a small submission lies."""
    folder = tmp_path_factory.mktemp("submission")
    (folder / "own.py").write_text("value = 1")
    (folder / "json.py").write_text("")
    (folder / "link").symlink_to("/etc/hostname")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTERHUB_API_TOKEN", "a-secret-token")
        return json.loads(run(PROBE, folder, Limits())[1])


def test_the_submission_is_there_without_links_and_without_what_hides_a_module(seen):
    assert seen["files"] == ["own.py"]


def test_of_the_course_only_what_a_lab_imports_is_there(seen):
    assert not {"solutions", "grader", "course", "tests", ".git"} & set(seen["root"])
    assert "techlabs" in seen["root"]


def test_home_is_empty_and_no_token_is_in_any_environment(seen):
    assert set(seen["home"]) <= {".ipython", ".cache", ".config"}
    assert "a-secret-token" not in json.dumps(seen)


def test_there_is_no_network_and_nobody_elses_process(seen):
    assert seen["network"] == "OSError"
    assert seen["processes"] < 8


def test_system_and_packages_are_read_only_and_files_are_limited(seen):
    assert (seen["system"], seen["packages"], seen["large file"]) == ("OSError", "OSError", "OSError")


def test_there_are_no_capabilities_and_no_way_to_new_ones(seen):
    assert seen["capabilities"] == ["0000000000000000"]
    assert seen["namespaces"] != 0


STUBBORN = (
    "import signal, time\nfor n in (2, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: time.sleep(1)"
)


@pytest.mark.parametrize(
    ("source", "limits", "reason"),
    [
        (STUBBORN, Limits(seconds=5), "its 5 s were over"),
        ("kept = [bytearray(50 << 20) for _ in range(20)]", Limits(memory_mb=300), "more than 300 MB"),
        ("import os, time\nwhile True: os.fork() or time.sleep(60)", Limits(processes=30), "30 processes"),
    ],
)
def test_a_limit_ends_the_box_and_is_named(tmp_path, source, limits, reason):
    manager, _ = run(source, tmp_path, limits)
    assert reason in manager.reason


def test_nothing_is_left_behind(tmp_path):
    manager, _ = run(
        "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)", tmp_path, Limits()
    )
    assert not manager.box.folder.exists()
    assert not any("sleep 600" in command for command in _commands())


DESERTER = """\
import asyncio, os, sys
from pathlib import Path
from traitlets.config import Config
from grader.kernel import submission_kernel
from grader.sandbox import Limits
manager = submission_kernel("python3", Config(), Path(sys.argv[1]), Limits(seconds=97))
asyncio.run(manager.start_kernel(cwd=sys.argv[2]))
os._exit(0)
"""


def test_a_box_ends_with_the_grader_that_started_it(tmp_path):
    subprocess.run([sys.executable, "-c", DESERTER, str(ROOT), str(tmp_path)], check=True)
    assert _becomes_true(lambda: not any('"seconds": 97' in command for command in _commands()))


def _commands() -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def _becomes_true(condition) -> bool:
    return any(condition() or time.sleep(0.2) for _ in range(100))


def test_a_course_in_a_folder_that_every_box_shows_is_refused(tmp_path):
    with pytest.raises(NoBox, match="which every box shows; move the course elsewhere"):
        sandbox.command(tmp_path, tmp_path, ["python"], tmp_path, Limits(), Path("/usr/share"))


class TestWithoutBubblewrap:
    @pytest.fixture(autouse=True)
    def no_bubblewrap(self, monkeypatch):
        def missing():
            raise NoBox("bubblewrap isn't installed")

        sandbox.require.cache_clear()
        monkeypatch.setattr(sandbox, "bubblewrap", missing)
        yield
        sandbox.require.cache_clear()

    def test_no_kernel_is_started_and_the_doctor_says_why(self):
        assert sandbox.describe() == (False, "bubblewrap isn't installed")
        with pytest.raises(NoBox):
            submission_kernel("python3", Config(), ROOT, Limits())

    def test_without_a_box_only_on_request(self):
        assert submission_kernel("python3", Config(), ROOT, Limits(), unsafe=True).box is None
