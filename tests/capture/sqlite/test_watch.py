"""Waiting for a writer: by inotify, or by looking at the files where there is none."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from headwater.capture.sqlite.watch import LOOK_S, Watch
from tests.capture.sqlite.drained import database
from tests.compat.waiting import AT_ONCE_SECONDS, LONG_MS


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


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_whoever_was_woken_before_the_commit_could_be_seen_looks_again_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    """In WAL mode the file is written first, and the commit is seen a moment later, without another event."""
    if platform == "linux" and sys.platform != "linux":
        pytest.skip("inotify is Linux's")
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr("headwater.capture.sqlite.watch.LOOK_S", LONG_MS / 1000)
    app = database(tmp_path / "a.db", "CREATE TABLE t (n)", mode="wal")
    watch = Watch(tmp_path / "a.db")
    app.execute("INSERT INTO t VALUES (1)")
    assert watch.wait(LONG_MS / 1000)
    looks: list[bool] = []
    later = threading.Thread(
        target=lambda: looks.extend(watch.wait(LONG_MS / 1000) for _ in range(3))
    )
    later.start()
    later.join(AT_ONCE_SECONDS)
    assert len(looks) == 3
    watch.close()
    app.close()


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
