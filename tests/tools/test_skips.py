"""No test is left out in silence: what is missing fails where servers are required, or it is no server."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
REQUIRED = "HEADWATER_REQUIRE_SERVERS"
SKIPS = ("pytest.skip", "pytest.mark.skipif", "pytest.mark.skip", "pytest.importorskip")
NO_SERVER = {
    "broker/test_data_folder.py": "root may write everywhere",
    "broker/test_descriptors.py": "/proc is Linux's",
    "capture/contract/conftest.py": "an ability that a kind of database does not have",
    "capture/postgres/test_incremental.py": "make soak",
    "capture/postgres/test_versions.py": "an older PostgreSQL has no such columns",
    "capture/sqlite/test_watch.py": "inotify is Linux's",
    "compat/missing.py": "the way that honours it",
    "compat/test_one_node.py": "Kafka itself does not take it",
    "compat/test_retention.py": "files of a server elsewhere",
    "compat/test_transactions.py": "files of a server elsewhere",
    "conftest.py": "make soak",
    "crash/test_sending_offsets.py": "make soak",
    "docs/test_site.py": "the site's generator wants a newer Python",
    "edges/udp/test_receiving.py": "kernels that do not count what they drop; no IPv6",
    "project/test_broker_process.py": "Linux alone tells a child of its parent's end",
    "project/test_kills.py": "Linux alone tells a child of its parent's end",
    "project/test_up.py": "Linux alone tells a child of its parent's end",
    "record/test_forms.py": "no C compiler, or no headers of Python",
    "record/test_oracle.py": "codecs that another library lacks",
    "schemas/test_other_clients.py": "Go, which Debian has in an older version",
    "schemas/test_sandbox.py": "/proc is Linux's",
    "security/test_matrix.py": "versions that headwater has not",
    "spark/sink/test_kills.py": "make soak",
    "spark/source/test_reading.py": "files of a server elsewhere",
}
"""Files whose skips are about something else, and what."""


def skips(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that skip, each with the text of the function around it."""
    tree = ast.parse(path.read_text())
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in SKIPS:
            around = [f for f in functions if f.lineno <= node.lineno <= (f.end_lineno or 0)]
            yield node.lineno, ast.unparse(around[-1]) if around else ""


def test_every_skip_honours_the_variable_or_is_about_no_server() -> None:
    silent, known = [], set()
    for path in sorted(TESTS.rglob("*.py")):
        name = path.relative_to(TESTS).as_posix()
        for line, around in skips(path):
            if name in NO_SERVER:
                known.add(name)
            elif REQUIRED not in around:
                silent.append(f"tests/{name}:{line}")
    assert not silent, f"use tests.compat.missing.skip_or_fail: {', '.join(silent)}"
    assert known == NO_SERVER.keys(), "these skip nothing any more"
