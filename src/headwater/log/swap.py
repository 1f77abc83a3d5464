"""Replacing segment files so that a crash leaves either the old or the new ones.

Kafka's own suffixes. Compaction writes `….log.cleaned`; once that is durable it is renamed to
`….log.swap`, which is the decision: from then on the new file counts. Then the old files go, and the
suffix is dropped. Files on their way out are called `….deleted`.

A start (`tidy`) therefore forgets `.cleaned` and `.deleted`, and finishes what is called `.swap`.
`.swap` files carry the last offset that they replace in a side file, `….swap.range`: offset as text.
"""

from __future__ import annotations

from pathlib import Path

from headwater.log.files import FileSystem
from headwater.log.segment import SUFFIXES, file_name

CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"
RANGE = ".swap.range"


def tidy(files: FileSystem, directory: Path) -> None:
    """Undo or finish what a crash interrupted."""
    names = files.list(directory)
    for name in names:
        if name.endswith((CLEANED, DELETED, ".tmp")):
            files.remove(directory / name)
    for name in names:
        if name.endswith(".log" + SWAP) and name[:20].isdigit():
            finish(files, directory, int(name[:20]))
    for name in files.list(directory):
        if name.endswith((SWAP, RANGE)):
            files.remove(directory / name)


def decide(files: FileSystem, directory: Path, base_offset: int, next_offset: int) -> None:
    """Make the durable `.cleaned` files the ones that count, for offsets up to `next_offset`."""
    files.write_atomic(directory / file_name(base_offset, RANGE), str(next_offset).encode())
    for suffix in reversed(SUFFIXES):  # the .log last: its name is the decision
        name = file_name(base_offset, suffix + CLEANED)
        if name in files.list(directory):
            files.rename(directory / name, directory / file_name(base_offset, suffix + SWAP))
    files.sync_dir(directory)


def finish(files: FileSystem, directory: Path, base_offset: int) -> None:
    """Remove what the `.swap` files replace and give them their final names. May be repeated."""
    text = files.read_bytes(directory / file_name(base_offset, RANGE)) or b""
    next_offset = int(text) if text.isdigit() else base_offset + 1
    for name in files.list(directory):
        stem, dot, suffix = name.partition(".")
        if not stem.isdigit() or "." + suffix not in SUFFIXES:
            continue
        if base_offset < int(stem) < next_offset or (int(stem) == base_offset and suffix != "log"):
            files.remove(directory / name)
    for suffix in SUFFIXES[1:] + SUFFIXES[:1]:
        if file_name(base_offset, suffix + SWAP) in files.list(directory):
            files.rename(
                directory / file_name(base_offset, suffix + SWAP),
                directory / file_name(base_offset, suffix),
            )
    files.sync_dir(directory)
    files.remove(directory / file_name(base_offset, RANGE))
