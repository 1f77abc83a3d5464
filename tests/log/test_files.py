"""The real file system behind the seam, where its corners are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.log import files as module
from headwater.log.files import Files


def test_more_buffers_than_the_system_takes_at_once_are_written_in_order(tmp_path: Path) -> None:
    file = Files().open(tmp_path / "log", create=True)
    pieces = [b"%05d" % n for n in range(3 * module.IOV_MAX + 7)]
    file.write(3, pieces)
    assert file.read(3, 10**6) == b"".join(pieces)
    assert file.size() == 3 + 5 * len(pieces)
    file.close()


def test_empty_buffers_are_no_trouble(tmp_path: Path) -> None:
    file = Files().open(tmp_path / "log", create=True)
    file.write(0, [])
    file.write(0, [b"", memoryview(b"ab"), bytearray(b""), b"c"])
    assert file.read(0, 10) == b"abc"
    file.close()


def test_a_write_that_the_system_did_in_part_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.pwritev

    def three_bytes(fd: int, buffers: list[memoryview], position: int) -> int:
        return whole(fd, [memoryview(b"".join(buffers))[:3]], position)

    monkeypatch.setattr(os, "pwritev", three_bytes)
    file = Files().open(tmp_path / "log", create=True)
    file.write(0, [b"abcd", b"e", b"fghij"])
    assert file.read(0, 20) == b"abcdefghij"
    file.close()


def test_an_atomic_write_that_the_system_did_in_part_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: whole(fd, bytes(data)[:4]))
    Files().write_atomic(tmp_path / "checkpoint", b"0123456789")
    assert (tmp_path / "checkpoint").read_bytes() == b"0123456789"


def test_an_atomic_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Files().write_atomic(tmp_path / "checkpoint", b"before")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    for name in ("fdatasync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(OSError, match="No space"):
                Files().write_atomic(tmp_path / "checkpoint", b"after")
        assert (tmp_path / "checkpoint").read_bytes() == b"before"


def test_a_read_beyond_the_end_is_short(tmp_path: Path) -> None:
    file = Files().open(tmp_path / "log", create=True)
    file.write(0, [b"abc"])
    assert file.read(1, 100) == b"bc"
    assert file.read(3, 100) == b""
    assert file.read_cached(0, 3) == b"abc"
    file.close()
    file.close()


def test_what_is_not_there_is_no_error_where_that_is_usual(tmp_path: Path) -> None:
    files = Files()
    assert files.read_bytes(tmp_path / "no") is None
    assert files.list(tmp_path / "no") == []
    files.remove(tmp_path / "no")
    files.remove_tree(tmp_path / "no")
