"""Every snippet that claims to work is run, page by page, against a real broker.

Python snippets of a page run in order, in one namespace, in an empty folder; ```` ```python
no-run ```` is left alone. Shell snippets that say so (```` ```bash run ````) run before them, in one
shell. The address 127.0.0.1:9092 stands for the broker that the test has started, or, on a page that
makes a project with a broker of its own, for a free port; 127.0.0.1:8086, of the edges, 8081, of the
registry, and 8125, of StatsD, always for one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from headwater.project.ports import free_port
from headwater.testing import broker
from tests.docs.pages import PAGES, name, runs, snippets, uses_spark
from tests.docs.warm_java import WarmJava

PROGRAMS = Path(sys.executable).parent
ADDRESS = "127.0.0.1:9092"
QUICK = {"group.initial.rebalance.delay.ms": "0"}
"""On every page a group is one consumer: there is nobody to wait for."""

INIT = """#!/bin/sh
[ "$1" = init ] || exec {headwater} "$@"
{headwater} "$@" || exit
sed -i.bak 's/127.0.0.1:9092/{address}/; s/127.0.0.1:8765/{page}/' "$2/headwater.toml"
"""
"""`headwater` as the pages find it: a new project gets addresses that are free here."""

WITH_SNIPPETS = [page for page in PAGES if any(map(runs, snippets(page)))]


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmJava]:
    java = WarmJava(tmp_path_factory.mktemp("java") / "folder")
    yield java
    java.close()


@pytest.mark.timeout(900)  # the first page that uses Spark also starts it
@pytest.mark.parametrize("page", list(filter(uses_spark, WITH_SNIPPETS)), ids=name)
def test_the_snippets_of_a_page_with_spark_run_in_order(page: Path, java: WarmJava):
    java.empty()
    run_all(page, java.folder, java.environment)


@pytest.mark.parametrize("page", [page for page in WITH_SNIPPETS if not uses_spark(page)], ids=name)
def test_the_snippets_of_a_page_run_in_order(page: Path, tmp_path: Path):
    folder = tmp_path / "folder"
    folder.mkdir()
    run_all(page, folder, {})


def run_all(page: Path, folder: Path, environment: dict[str, str]) -> None:
    if any("headwater init" in snippet.text for snippet in filter(runs, snippets(page))):
        address = f"127.0.0.1:{free_port()}"
        command = folder.with_name("bin") / "headwater"
        command.parent.mkdir(exist_ok=True)
        command.write_text(
            INIT.format(
                headwater=PROGRAMS / "headwater", address=address, page=f"127.0.0.1:{free_port()}"
            )
        )
        command.chmod(0o755)
        run_page(page, folder, environment, address)
        return
    with broker(settings=QUICK) as running:
        environment = {**environment, "HEADWATER_BOOTSTRAP": running.bootstrap}
        run_page(page, folder, environment, running.bootstrap)


def run_page(page: Path, folder: Path, environment: dict[str, str], address: str) -> None:
    # Pages tell one story: each snippet may use what an earlier one has made.
    programs = {"bash": "set -euo pipefail", "python": ""}
    free = {
        ADDRESS: address,
        "127.0.0.1:8086": f"127.0.0.1:{free_port()}",
        "127.0.0.1:8081": f"127.0.0.1:{free_port()}",
        "8125": str(free_port()),
    }
    for snippet in filter(runs, snippets(page)):
        program = programs[snippet.language]
        filled = program + "\n" * (snippet.line - 1 - program.count("\n"))  # lines as in the page
        text = snippet.text
        for written, here in free.items():
            text = text.replace(written, here)
        programs[snippet.language] = filled + text
    if any(snippet.language == "bash" and runs(snippet) for snippet in snippets(page)):
        run(["bash", "-c", programs["bash"]], folder, environment, name(page))
    if programs["python"]:
        command = [sys.executable, "-W", "error", "-c", programs["python"]]
        run(command, folder, environment, name(page))


def run(command: list[str], folder: Path, environment: dict[str, str], where: str) -> None:
    outside = {key: value for key, value in os.environ.items() if not key.startswith("HEADWATER_")}
    path = os.pathsep.join([str(folder.with_name("bin")), str(PROGRAMS), os.environ["PATH"]])
    with (folder / ".output").open("w+", encoding="utf-8") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**outside, **environment, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            code = process.wait(240)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # what it left behind in the background, too
            process.wait()
        output.seek(0)
        assert code == 0, f"{where} failed:\n{output.read()}"
