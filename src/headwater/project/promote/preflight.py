"""What must be so before a project is moved: nothing of it runs, both sides answer, its log can be read.

Called by `job`. Everything here refuses with CannotPromote, and changes nothing.
"""

from __future__ import annotations

import fcntl
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from headwater.project import record
from headwater.project.broker_process import BrokerProcess
from headwater.project.file import Project
from headwater.project.hello import Answer, hello
from headwater.project.promote.errors import CannotPromote
from headwater.project.promote.move import Order

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
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("ab") as lock:
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
    if "://" in project.checkpoints and not project.checkpoints.startswith("file:"):
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
