"""What an extra's packages import, the extra brings: nothing reaches into what another one needs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"
ALONE = Path(__file__).with_name("alone.py")
CORE = ("record", "wire", "log", "broker", "client", "browse", "project", "cli")
COMPILED = "headwater.client.decode."
LEAVES = {
    "": {
        "headwater.client.fetch",  # pieces for the compiled decoder
        "headwater.client.piece",
        "headwater.project.demo.shop.pipelines",  # a file of queries, run by Spark
        "headwater.project.http_protocol",  # of the servers of edges and console
        "headwater.project.http_server",
        "headwater.project.websocket_protocol",
    },
    "schemas": {"headwater.schemas.values.arrow"},  # of Spark's sink
}
"""Imported only where somebody uses what the other extra is for."""


def modules(package: str) -> list[str]:
    found = (SOURCES / "headwater" / package).rglob("*.py")
    named = (each.relative_to(SOURCES).with_suffix("") for each in found)
    return sorted(".".join(each.parts).removesuffix(".__init__") for each in named)


@pytest.mark.parametrize(
    ("extra", "packages"),
    [
        ("", CORE),
        ("events", ["events"]),
        ("edges", ["edges"]),
        ("console", ["console"]),
        ("schemas", ["schemas", "edges/registry"]),
        ("oidc", ["oidc"]),
        ("postgres", ["capture/postgres"]),
        ("mysql", ["capture/mysql"]),
        ("mongodb", ["capture/mongodb"]),
        ("search", ["views/targets/search"]),
        ("redis", ["views/targets/redis"]),
        ("warehouse", ["views/targets/duckdb", "views/targets/delta"]),
    ],
    ids=lambda value: (value or "core") if isinstance(value, str) else "",
)
def test_an_extra_brings_what_its_packages_import(extra, packages):
    wanted = [each for package in packages for each in modules(package)]
    ended = subprocess.run(
        [sys.executable, str(ALONE), extra, *wanted], capture_output=True, text=True, timeout=300
    )
    assert not ended.stderr, ended.stderr
    lacking = dict(line.split(": ") for line in ended.stdout.splitlines())
    leaves = {name for name in lacking if name.startswith(COMPILED)} | LEAVES.get(extra, set())
    assert lacking.keys() - leaves == set(), lacking
    assert LEAVES.get(extra, set()) <= lacking.keys(), "no longer a leaf: take it off the list"


IN_THE_CORE = """
import sys
from tests.installs.alone import Hidden, needed
sys.meta_path.insert(0, Hidden(needed([])))
from headwater.cli import main
sys.exit(main(sys.argv[1:]))
"""


ORDERS = """
import headwater as hw

@hw.view("orders", to="sqlite:views.db")
def orders(log):
    return log
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "wait orders --position shop.orders:0=1",
            "pyarrow is not installed; pip install 'headwater[spark]'",
        ),
        ("schemas serve", "is not installed; pip install 'headwater[schemas]'"),
    ],
)
def test_a_command_says_what_installs_the_package_that_it_lacks(tmp_path, words, said):
    (tmp_path / "headwater.toml").write_text('[pipelines]\npaths = ["orders.py"]\n')
    (tmp_path / "orders.py").write_text(ORDERS)
    ended = subprocess.run(
        [sys.executable, "-c", IN_THE_CORE, *words.split()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(SOURCES.parent)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 1 and said in ended.stderr, ended.stderr
    assert "Traceback" not in ended.stderr


def test_whoever_imports_kio_keeps_away_what_it_would_bring_along():
    """Where hypothesis is installed, kio imports it: that is four times as long as kio alone."""
    forgot = []
    for file in (SOURCES / "headwater").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if file.relative_to(SOURCES).parts[1] not in ("broker", "wire"):
            first = re.search(r"^(?:from|import) kio\b", text, re.MULTILINE)
            guard = text.find("from headwater import only_kio")
            if first and not 0 <= guard < first.start():
                forgot.append(str(file.relative_to(SOURCES)))
    assert forgot == []
