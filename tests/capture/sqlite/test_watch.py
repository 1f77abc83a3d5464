"""Waiting for a writer: by inotify, or by looking at the files where there is none."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from headwater.capture.sqlite.watch import LOOK_S, Watch
from tests.capture.sqlite.drained import database


@pytest.mark.parametrize("platform", ["linux", "darwin"])
@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_write_ends_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, mode: str
) -> None:
    if platform == "linux" and sys.platform != "linux":
        pytest.skip("inotify is Linux's")
    monkeypatch.setattr(sys, "platform", platform)
    app = database(tmp_path / "a.db", "CREATE TABLE t (n)", mode=mode)
    watch = Watch(tmp_path / "a.db")
    assert not watch.wait(0.02), "nobody writes"
    app.close()
    watch.wait(0)  # closing the last connection is a write as well

    def write() -> None:
        own = database(tmp_path / "a.db", mode=mode)
        own.execute("INSERT INTO t VALUES (1)")
        own.close()

    writer = threading.Timer(0.02, write)
    writer.start()
    assert any(watch.wait(LOOK_S) for _ in range(20))
    writer.join()
    watch.close()


def test_another_file_under_the_same_name_is_noticed(tmp_path: Path) -> None:
    database(tmp_path / "a.db", "CREATE TABLE t (n)", mode="delete").close()
    watch = Watch(tmp_path / "a.db")
    assert not watch.was_replaced()
    database(tmp_path / "b.db", "CREATE TABLE t (n)", mode="delete").close()
    (tmp_path / "b.db").rename(tmp_path / "a.db")
    assert watch.was_replaced()
    (tmp_path / "a.db").unlink()
    assert watch.was_replaced()
    watch.close()
