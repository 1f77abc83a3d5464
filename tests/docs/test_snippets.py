"""Every snippet that claims to work is run, page by page, against a real broker.

Python snippets of a page run in order, in one namespace, in an empty folder; ```` ```python
no-run ```` is left alone. Shell snippets run where their fence says ```` ```bash run ````. The
address 127.0.0.1:9092 stands for the broker that the test has started.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.project.broker_process import BrokerProcess
from tests.docs.pages import PAGES, Snippet, name, snippets
from tests.spark.quick import QUICK_ENVIRONMENT

ADDRESS = "127.0.0.1:9092"


def runs(snippet: Snippet) -> bool:
    if snippet.language == "python":
        return "no-run" not in snippet.marks
    return snippet.language == "bash" and "run" in snippet.marks


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    with BrokerProcess(tmp_path / "log") as broker:
        broker.start()
        yield broker.bootstrap
        broker.stop()


@pytest.mark.timeout(400)  # a page that starts Spark takes half a minute on a machine at rest
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(map(runs, snippets(page)))], ids=name
)
def test_the_snippets_of_a_page_run_in_order(page: Path, bootstrap: str, tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    python = ""
    for snippet in filter(runs, snippets(page)):
        if snippet.language == "python":
            # Pages tell one story: each snippet may use what an earlier one has made.
            python += "\n" * (snippet.line - 1 - python.count("\n")) + snippet.text
            continue
        program = f"set -euo pipefail\n{snippet.text.replace(ADDRESS, bootstrap)}"
        run(["bash", "-c", program], folder, bootstrap, f"{name(page)}:{snippet.line}")
    if python:
        program = python.replace(ADDRESS, bootstrap)
        run([sys.executable, "-W", "error", "-c", program], folder, bootstrap, name(page))


def run(command: list[str], folder: Path, bootstrap: str, where: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=folder,
        env={
            **os.environ,
            **QUICK_ENVIRONMENT,
            "PATH": path,
            "HEADWATER_BOOTSTRAP": bootstrap,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{where} failed:\n{done.stdout}{done.stderr}"
