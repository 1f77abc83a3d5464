"""The move of a project to Apache Kafka, step by step. Called by `headwater promote`.

    1  nothing runs, both sides answer, headwater.toml can be changed     else nothing is begun
    2  topics are made in Kafka and filled, offset by offset              a kill here: the next run goes on
    3  every record is compared
    4  groups get their positions, topics their settings
    5  checkpoints get the new ids of topics, headwater.toml the new addresses

The log itself is only read, by a broker of our own that neither deletes nor compacts. Each step can be done
again, so a run that was killed is repeated by the next one, which says where it went on.

Spark's checkpoints name topics by id as well, to notice one that was deleted and made again.

The copies in Kafka have new ids, and the same offsets. So each id is replaced in the positions that queries
have written down (`spark.source.position`), and nothing else is touched. Done again, it changes nothing.

Also here: what must be so before a project is moved: nothing of it runs, both sides answer, its log can
be read.

Everything here refuses with CannotPromote, and changes nothing.
"""

from __future__ import annotations

import fcntl
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from headwater import atomic_file, owner_only
from headwater.local_path import local_path
from headwater.project import record
from headwater.project.broker_process import BrokerProcess
from headwater.project.file import Project
from headwater.project.hello import Answer, hello
from headwater.project.promote import addresses
from headwater.project.promote.errors import CannotPromote
from headwater.project.promote.move import Audience, Move, Order, Report

__all__ = ["Order", "Report", "promote"]


def promote(order: Order, audience: Audience) -> Report:
    """Do it; CannotPromote leaves the project as it was."""
    text = order.project.path.read_text(encoding="utf-8")
    if order.project.bootstrap is not None:
        raise CannotPromote(
            f"this project's log is at {order.project.bootstrap} already: there is nothing to move",
            hint="change bootstrap in [log] to use another Kafka",
        )
    changed = addresses.moved(text, order.kafka, order.spark)
    root = checkpoint_folder(order.project)
    with alone(order.project):
        require_finished(root)
        check_addresses(order)
        with source(order.project) as old:
            move = Move(order, old, audience)
            try:
                move.plan()
                if order.dry_run:
                    return move.report
                move.fill()
                move.compare()
                move.hand_over()
            finally:
                move.close()
        move.report.queries = rename_topics(root, move.renamed())
        move.report.backup = _rewrite(order.project.path, text, changed)
        move.journal.remove()
    return move.report


def _rewrite(path: Path, text: str, changed: str) -> Path:
    backup = path.with_name(f"{path.name}.before-kafka")
    number = 1
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.before-kafka-{number}")
    atomic_file.write(backup, text)
    atomic_file.write(path, changed)
    return backup


_NOTE = "headwater.json"


def require_finished(root: Path) -> None:
    """CannotPromote if a query that writes to a topic has a batch at hand.

    Who finishes it looks for its records by the ids of producers, which are others in Kafka.
    """
    for folder in _queries(root):
        note = json.loads((folder / _NOTE).read_text())
        if str(note.get("to", "")).startswith("topic:") and _last(folder, "offsets") != _last(
            folder, "commits"
        ):
            raise CannotPromote(
                f"the query {folder.name} has a batch at hand that is not finished",
                hint="start the project and stop it with Ctrl-C: headwater up",
            )


def rename_topics(root: Path, ids: Mapping[str, str]) -> int:
    """Put new ids in the place of old ones; how many queries were touched."""
    touched = 0
    for folder in _queries(root):
        batches = [path for path in sorted((folder / "offsets").iterdir()) if path.name.isdigit()]
        changed = [_rename(path, ids) for path in batches]
        touched += any(changed)
    return touched


def _rename(path: Path, ids: Mapping[str, str]) -> bool:
    before = text = path.read_text(encoding="utf-8")
    for old, new in ids.items():
        text = text.replace(old, new)
    if text == before:
        return False
    # The checksum beside it is of the old text; where there is none, Hadoop asks for none.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    atomic_file.write(path, text)
    return True


def _queries(root: Path) -> Iterator[Path]:
    for note in sorted(root.glob(f"*/{_NOTE}")):
        if (note.parent / "offsets").is_dir():
            yield note.parent


def _last(folder: Path, kind: str) -> int:
    numbers = [int(path.name) for path in (folder / kind).glob("[0-9]*") if path.name.isdigit()]
    return max(numbers, default=-1)


# Nothing may disappear while it is being read, nor may anybody need a password for our own broker.
_STILL = {
    "log.retention.check.interval.ms": str(1 << 40),
    "log.cleaner.enable": "false",
    "offsets.retention.check.interval.ms": str(1 << 40),
    # Its ACLs are only told where they count.
    "authorizer.class.name": "acl",
    "super.users": "User:ANONYMOUS",
}
_SECURITY = (
    "listener",
    "advertised",
    "sasl",
    "ssl",
    "authorizer",
    "super.users",
    "security",
    "allow",
)


@contextmanager
def alone(project: Project) -> Iterator[None]:
    """Nothing of the project runs, and nothing can be started meanwhile."""
    folder = project.folder / record.FOLDER
    owner_only.make_folder(folder)
    with owner_only.opened(folder / "lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotPromote(
                "the project is running", hint="stop it first: Ctrl-C where headwater up runs"
            ) from None
        if hello(project.listen, timeout_s=1.0) is not Answer.NOBODY:
            raise CannotPromote(
                f"something answers at {project.listen}, where this project's broker would be",
                hint="stop the broker first; what nobody writes to can be copied whole",
            )
        yield


@contextmanager
def source(project: Project) -> Iterator[str]:
    """The project's log, served to us alone."""
    kept = {
        name: value for name, value in project.settings.items() if not name.startswith(_SECURITY)
    }
    data = project.folder / project.data
    if not data.is_dir():
        raise CannotPromote(
            f"there is no log at {data}", hint="a project that has never run needs no move"
        )
    with BrokerProcess(data, settings={**kept, **_STILL}) as broker:
        broker.start()
        yield broker.bootstrap
        broker.stop()


def checkpoint_folder(project: Project) -> Path:
    if local_path(project.checkpoints) is None:
        raise CannotPromote(
            f"the checkpoints are at {project.checkpoints}, where they cannot be changed from here",
            hint="bring them to a folder that this machine sees, and name it in [spark] checkpoints",
        )
    return project.folder / project.checkpoints.removeprefix("file:")


def check_addresses(order: Order) -> None:
    if not order.client and not any(
        hello(address, timeout_s=5.0) is Answer.BROKER for address in order.kafka.split(",")
    ):
        raise CannotPromote(
            f"no broker answers at {order.kafka}",
            hint="check --kafka; one that wants TLS or a login is reached with HEADWATER_CLIENT_CONFIG",
        )
    if order.spark is None or not order.spark.startswith(("spark://", "sc://")):
        return
    for address in order.spark.partition("://")[2].partition("/")[0].split(","):
        place = urlsplit(f"//{address}")
        try:
            port = place.port or (15002 if order.spark.startswith("sc:") else 7077)
            socket.create_connection((place.hostname or "", port), timeout=5).close()
            return
        except (OSError, ValueError):
            continue
    raise CannotPromote(f"nobody answers at {order.spark}", hint="check --spark, or start it")
