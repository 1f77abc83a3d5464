"""Files beside a partition's log that may hold records of it, and that nobody reads any more.

Excision changes the log and nothing else, so it has to name these: what was taken out of the log may still be
in one of them.

    DIR/orders-0/*.damaged                  bytes that could not be read (`replay`)
    DIR/orders-0.<32 hex>-stray/            a folder that a start has set aside (`store`)
    DIR/set-aside/<when>/orders-0/*.log…    what a repair has put aside: whole files, ends that were cut off
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from headwater.log.files import FileSystem
from headwater.log.replay import DAMAGED

ASIDE = "set-aside"
STRAY = "-stray"
_SUFFIX_CHARS = len(f".{'0' * 32}{STRAY}")
_NAME_MAX = 255


def beside(files: FileSystem, root: Path, topic: str, partitions: Iterable[int]) -> list[str]:
    """Their paths below `root`; those without a byte in them are left out. Raises OSError."""
    found = [path for number in partitions for path in _of(files, root, f"{topic}-{number}")]
    return [str(path.relative_to(root)) for path in found if files.size(path)]


def _of(files: FileSystem, root: Path, folder: str) -> Iterator[Path]:
    yield from (each for each in _in(files, root / folder) if each.name.endswith(DAMAGED))
    for each in _in(files, root):
        if _is_stray_of(each.name, folder):
            yield from _logs(files, each)
    for repair in _in(files, root / ASIDE):
        for each in _in(files, repair):
            if each.name == folder or each.name.startswith(f"{folder}."):
                yield from _logs(files, each)


def _in(files: FileSystem, directory: Path) -> list[Path]:
    try:
        return [directory / name for name in files.list(directory)]
    except NotADirectoryError:
        return []


def _logs(files: FileSystem, directory: Path) -> Iterator[Path]:
    """Segments under whatever name: `0….log`, `0….log.2`, `0….log.from-byte-77`, `0….damaged`."""
    for each in _in(files, directory):
        if ".log" in each.name or each.name.endswith(DAMAGED):
            yield each


def _is_stray_of(name: str, folder: str) -> bool:
    """A long name was cut to make room for the suffix."""
    if not name.endswith(STRAY):
        return False
    kept = name[:-_SUFFIX_CHARS]
    return kept == folder or (len(name) == _NAME_MAX and folder.startswith(kept))
