"""The data folder itself: whose it is, who holds it, what is in it, what its checkpoints say.

`check` opens one first. Everything here only reads: a lock is asked for, never made.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headwater.broker.catalogue import LOG_NAME
from headwater.broker.inspection.facts import Place
from headwater.errors import HeadwaterError
from headwater.format_version import NewerFormat
from headwater.log import checkpoints, folder_lock, meta, reserve
from headwater.log.checkpoints import TopicPartition
from headwater.log.copies import ASIDE
from headwater.log.files import Files
from headwater.log.meta import META, read_lines
from headwater.log.store import CLEAN, LOCK

KAFKA_METADATA = "__cluster_metadata-0"
STRAY = re.compile(r"(.+-\d+)\.[0-9a-f]{32}-stray")
_OFFSET_FILES = (
    checkpoints.RECOVERY_POINTS,
    checkpoints.START_OFFSETS,
    checkpoints.CLEANED_OFFSETS,
)
_KNOWN_FILES = {CLEAN, LOCK, META, reserve.NAME, *_OFFSET_FILES, "bootstrap.checkpoint"}


class CannotLook(HeadwaterError):
    """There is nothing to inspect here, or somebody is at work on it."""


@dataclass(slots=True)
class Folder:
    """What the names in a data folder are."""

    root: Path
    partitions: dict[TopicPartition, Place] = field(default_factory=dict)
    strays: dict[str, TopicPartition] = field(default_factory=dict)
    """Folder that was set aside → the partition that it was."""
    doomed: list[str] = field(default_factory=list)
    """Folders that are on their way out."""
    unknown: list[str] = field(default_factory=list)
    is_clean: bool = False
    is_kafkas: bool = False
    node_id: str | None = None
    meta: dict[str, str] = field(default_factory=dict)
    """What can be read of `meta.properties`."""
    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    """Checkpoint file → its entries."""
    damaged: dict[str, str] = field(default_factory=dict)
    """File → why it cannot be read."""

    def offset(self, name: str, key: TopicPartition) -> int:
        return self.offsets.get(name, {}).get(key, 0)


def opened(root: Path) -> Folder:
    """Raises CannotLook unless there is a data folder, of a format that is known."""
    if not root.exists():
        raise CannotLook(f"{root} does not exist.", hint="Give the folder of a broker's --data.")
    if not root.is_dir():
        raise CannotLook(f"{root} is a file.", hint="Give the folder of a broker's --data.")
    folder = Folder(root)
    try:
        names = sorted(path.name for path in root.iterdir())
    except OSError as error:
        raise CannotLook(
            f"{root} cannot be read: {error.strerror}.", hint="Run this as the broker's user."
        ) from error
    folder.is_kafkas = KAFKA_METADATA in names and f"{LOG_NAME}-0" not in names
    folder.is_clean = CLEAN in names
    for name in names:
        _sort(folder, name)
    if not folder.partitions and META not in names and not folder.strays:
        raise CannotLook(
            f"{root} is no broker's data folder: it has neither {META} nor a partition.",
            hint="Give the folder of a broker's --data.",
        )
    for name in _OFFSET_FILES:
        _read_offsets(folder, name, names)
    _read_meta(folder, names)
    return folder


def _sort(folder: Folder, name: str) -> None:
    path = folder.root / name
    topic, dash, number = name.rpartition("-")
    stray = STRAY.fullmatch(name)
    if name in _KNOWN_FILES or name == ASIDE:
        return
    if not path.is_dir():
        folder.unknown.append(name)
    elif stray is not None:
        at, _, digits = stray[1].rpartition("-")
        folder.strays[name] = (at, int(digits))
    elif name.endswith("-delete"):
        folder.doomed.append(name)
    elif dash and topic and number.isdecimal() and str(int(number)) == number:
        folder.partitions[topic, int(number)] = Place(topic, int(number), folder.root, path)
    else:
        folder.unknown.append(name)


def _read_offsets(folder: Folder, name: str, names: list[str]) -> None:
    """One that cannot be understood is none, but told. Kafka makes its files empty, and fills them later."""
    if name not in names:
        return
    try:
        data = (folder.root / name).read_bytes()
    except OSError as error:
        folder.damaged[name] = error.strerror or str(error)
        return
    folder.offsets[name] = checkpoints.read_offsets(Files(), folder.root / name)
    is_new = data.strip() == b"0\n0" or (folder.is_kafkas and not data)
    if not folder.offsets[name] and not is_new:
        folder.damaged[name] = "it is no list of partitions and offsets"


def _read_meta(folder: Folder, names: list[str]) -> None:
    if META not in names:
        folder.damaged[META] = "it is missing"
        return
    try:
        found = folder.meta = read_lines((folder.root / META).read_bytes())
    except OSError as error:
        folder.damaged[META] = error.strerror or str(error)
        return
    try:
        meta.check_format(folder.root, found)
    except NewerFormat as error:
        raise CannotLook(error.sentence, hint=error.hint) from error
    except meta.DamagedFormat:
        folder.damaged[META] = (
            f"no version writes {meta.FORMAT_LINE}={found.pop(meta.FORMAT_LINE)[:20]!r}"
        )
        return
    folder.node_id = found.get("node.id")
    if not (found.get("cluster.id") and (folder.node_id or "").isdigit()):
        folder.damaged[META] = "it does not name a cluster and a node"


def hold(root: Path, *, exclusive: bool) -> Callable[[], None]:
    """Keep a broker from starting meanwhile. Raises CannotLook if one is at work.

    Without `exclusive` nothing is made or changed: what may not be locked is looked at all the same.
    """
    try:
        return folder_lock.hold(root / LOCK, shared=not exclusive)
    except BlockingIOError:
        raise _in_use(root) from None
    except OSError as error:
        raise CannotLook(
            f"{root} cannot be changed: {error.strerror}.",
            hint="Run this as the broker's user.",
        ) from error


def _in_use(root: Path) -> CannotLook:
    return CannotLook(
        f"{root} is in use by a running broker.",
        hint="Stop it first: what it is about to write cannot be judged.",
    )
