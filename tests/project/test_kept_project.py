"""A project that 0.1.0 has left goes on: its file, its log, its capture and its checkpoints, state included.

`kept/0.1.0-project.tar.gz` is the folder of `headwater init shop` in version 0.1.0, with one query more
(`visits`, a stream with state), after 40 orders and 60 clicks, stopped by SIGTERM.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headwater.format_version import FIRST
from headwater.pipelines.checkpoints import NOTE
from headwater.project import values
from headwater.project.file import load
from headwater.project.ports import free_port
from tests.compat.waiting import until
from tests.spark.quick import QUICK_ENVIRONMENT

KEPT = Path(__file__).with_name("kept") / "0.1.0-project.tar.gz"
PATIENCE_S = 300.0
TRUTH = """SELECT o.id, c.name, c.city, o.item, o.total FROM orders o
           JOIN customers c ON c.id = o.customer_id ORDER BY o.id"""
MINE = "SELECT order_id, name, city, item, total FROM order_list ORDER BY order_id"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(KEPT) as archive:
        archive.extractall(tmp_path, filter="data")
    for name, value in QUICK_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return tmp_path / "shop"


@pytest.fixture
def address(kept: Path) -> str:
    """Where its broker will listen; what the log holds shall not expire, however old the folder is."""
    found, path = f"127.0.0.1:{free_port()}", kept / "headwater.toml"
    text = path.read_text().replace("127.0.0.1:29092", found)
    path.write_text(f'{text}\n[log.settings]\n"log.retention.ms" = -1\n')
    return found


@pytest.fixture
def up(kept: Path, address: str) -> Iterator[subprocess.Popen[bytes]]:
    with (kept / "output.txt").open("wb") as output:
        command = [sys.executable, "-m", "headwater", "up"]
        process = subprocess.Popen(command, cwd=kept, stdout=output, stderr=output)
    yield process
    if process.poll() is None:
        process.kill()
        process.wait()


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path, timeout=60)) as database:
        return database.execute(query).fetchall()


def test_its_file_is_read_and_its_checkpoints_say_no_format(kept: Path) -> None:
    project = load(kept / "headwater.toml")
    assert (set(project.captures), set(project.views)) == ({"shop"}, {"order_list", "visits"})
    assert list(values.examine(project)) == []
    notes = sorted((kept / "data" / "checkpoints").glob(f"*/{NOTE}"))
    assert [each.parent.name for each in notes] == ["order_list", "visits"]
    assert [json.loads(each.read_text()).get("format", FIRST) for each in notes] == [FIRST, FIRST]


def test_everything_goes_on_where_it_was(
    kept: Path, address: str, up: subprocess.Popen[bytes]
) -> None:
    views = kept / "data" / "views.db"
    assert rows(views, MINE) == rows(kept / "shop.db", TRUTH)
    before = len(rows(kept / "shop.db", TRUTH))
    more = [sys.executable, "shop.py", "--orders", "20"]
    assert subprocess.run(more, cwd=kept, timeout=60, check=False).returncode == 0
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    for number in range(10):
        producer.produce("clicks", value=json.dumps({"page": f"/{number % 5}"}))
    assert producer.flush(120) == 0

    def follows() -> bool:
        assert up.poll() is None, (kept / "output.txt").read_text()[-3000:]
        counts = rows(views, "SELECT page, count FROM visits ORDER BY page")
        is_equal = rows(views, MINE) == rows(kept / "shop.db", TRUTH)
        return is_equal and counts == [(f"/{page}", 14) for page in range(5)]

    until(follows, "the views to follow", PATIENCE_S, 0.2)
    assert len(rows(kept / "shop.db", TRUTH)) != before
    up.send_signal(signal.SIGTERM)
    assert up.wait(120) == 0, (kept / "output.txt").read_text()[-3000:]
    said = (kept / "output.txt").read_text()
    assert "refused" not in said
    assert "snapshot" not in said.replace("no snapshot", ""), said[-3000:]
