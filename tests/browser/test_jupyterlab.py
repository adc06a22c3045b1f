"""A learner in JupyterLab: open a lab, predict, solve an exercise, see the verdict."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium")
sync_api = pytest.importorskip("playwright.sync_api", reason="pip install -r tests/browser/requirements.txt")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium")

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
]
ANSWER = "def flat_features(side, channels):\nreturn channels * (side // 4) ** 2"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """JupyterLab with the course's settings on a copy of labs/, as `make start` opens it."""
    folder = tmp_path_factory.mktemp("jupyter")
    shutil.copytree(ROOT / "labs", folder / "labs")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", str(folder / "labs"), "--no-browser", f"--port={port}"]
    environment = {
        **os.environ,
        "JUPYTER_CONFIG_PATH": str(ROOT / "jupyter_config"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "TECHLABS_HOME": str(folder / "records"),
    }
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--IdentityProvider.token=t"], env=environment, stdout=log, stderr=log
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/api?token=t")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


@pytest.fixture
def page():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        page = browser.new_page(viewport={"width": 1300, "height": 1500})
        page.set_default_timeout(60_000)
        yield page
        browser.close()


def _wait_for(address):
    for _ in range(300):
        try:
            return urlopen(address)
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(address)


def test_a_learner_predicts_solves_and_is_told_at_once(server, page):
    page.goto(f"{server}/lab/tree/11_gpu_first/11_gpu_first.ipynb?token=t&reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.get_by_text("Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()

    _scroll_to(page, "lab.predict(")
    page.get_by_role("button", name="22", exact=True).click()
    page.get_by_text("Kept: 22").wait_for()

    _scroll_to(page, "def flat_features")
    page.get_by_text(re.compile("x3 not attempted")).wait_for()
    _cell(page, "def flat_features").locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.type(ANSWER)
    page.keyboard.press("Shift+Enter")
    page.keyboard.press("Shift+Enter")
    page.get_by_text(re.compile("x3 passed")).wait_for()


def _cell(page, text):
    return page.locator(".jp-CodeCell").filter(has_text=text).first


def _scroll_to(page, text):
    """JupyterLab draws only the cells in view, so go down page by page until the cell is there."""
    panel = page.locator(".jp-WindowedPanel-outer").first
    for step in range(40):
        panel.evaluate("(element, step) => element.scrollTop = step * 400", step)
        page.wait_for_timeout(300)
        if _cell(page, text).count():
            _cell(page, text).scroll_into_view_if_needed()
            return
    raise LookupError(text)
