"""A file that is replaced as a whole, durably: the one way to keep state in a file.

    write a temporary file beside it ─▶ fsync it ─▶ rename it ─▶ fsync the folder

Whoever finds the file after a crash, also one of the machine, finds all of the old content or all of the
new; and once a function here has returned, the new. Without the first fsync the name may come before the
bytes, without the second the old name may come back. Used by the log (`files`) and by every ring around it
that keeps state in files: views, pipelines, the project. What can be made again at will (a cache, rows that
are staged for a batch) needs none of this.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

SUFFIX = ".tmp"
"""Of the temporary file's name. One that is found at start was never finished."""

_READ_BYTES = 64 * 1024


def read(path: Path) -> bytes:
    """All of it. At start a dozen are read for each partition, most of them small or not there."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = [os.read(number, _READ_BYTES)]
        while pieces[-1]:  # fewer bytes than asked for need not be the end
            pieces.append(os.read(number, _READ_BYTES))
        return b"".join(pieces)
    finally:
        os.close(number)


def write(path: Path, content: bytes | str) -> None:
    """Replace the file's content; durable when this returns."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write the new content to. It takes the place of the old one at the end of the block,
    durably; if the block fails, the old one stays."""
    temporary = path.with_name(path.name + SUFFIX)
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fdatasync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    rename(temporary, path)


def rename(old: Path, new: Path) -> None:
    """Give a file, folder or link another name, in the place of what has it; durable when this returns.

    A file's bytes must be durable before.
    """
    os.replace(old, new)  # noqa: PTH105 - by the name that the test of renames knows
    sync_folder(new.parent)
    if old.parent != new.parent:
        sync_folder(old.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing; durable when this returns."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """A folder's list of names to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
