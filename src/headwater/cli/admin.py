"""A connection for the commands that ask a running log: any broker that speaks Kafka's protocol.

Called by `topics` and the commands after it. confluent-kafka is imported here, on first use, and
its errors leave here as one sentence each.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.properties import client_config
from headwater.client.errors import BrokerUnreachable, RequestRefused
from headwater.errors import HeadwaterError
from headwater.project.hello import Answer, hello

if TYPE_CHECKING:
    from headwater.client.librdkafka import AdminClient
    from headwater.client.log import Log

TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 3.0
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
PROJECT_FILE = "headwater.toml"


def bootstrap_option() -> Any:
    return typer.Option(
        DEFAULT_BOOTSTRAP,
        "--bootstrap",
        metavar="HOST:PORT",
        envvar="HEADWATER_BOOTSTRAP",
        callback=_of_the_project,
        help="Address of the log: headwater's broker or Apache Kafka. In a project's folder, its log.",
    )


def _of_the_project(context: typer.Context, value: str) -> str:
    """Where nobody named a log and headwater.toml is here, its log is meant."""
    source = context.get_parameter_source("bootstrap")
    if source is None or source.name != "DEFAULT" or not Path(PROJECT_FILE).is_file():
        return value
    from headwater.project.file import load

    try:
        return load(Path(PROJECT_FILE)).address
    except HeadwaterError:
        return value  # `headwater doctor` says what is wrong with the file


def json_option() -> Any:
    return typer.Option(False, "--json", help="Print JSON, for scripts.")


@contextmanager
def admin(bootstrap: str) -> Iterator[AdminClient]:
    """An admin client for the time of one command; what goes wrong inside becomes a sentence."""
    from headwater.client.librdkafka import AdminClient, KafkaException

    check_presence(bootstrap)
    quiet = logging.getLogger("headwater.cli.librdkafka")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    try:
        client = AdminClient(
            {
                "bootstrap.servers": bootstrap,
                "client.id": "headwater",
                "socket.connection.setup.timeout.ms": 3000,
                # The sentence below says it; librdkafka's own log lines would only repeat it.
                "log_level": 0,
                **client_config(),
            },
            logger=quiet,
        )
        yield client
    except KafkaException as failure:
        raise translated(failure.args[0], bootstrap) from None


def check_presence(bootstrap: str) -> None:
    """Say at once that no broker answers: librdkafka would go on trying until its time is up.

    What is behind TLS or a login cannot be asked so simply, and is not.
    """
    if not client_config() and (missing := absence(bootstrap)) is not None:
        raise missing


def translated(error: Any, bootstrap: str) -> HeadwaterError:
    """One of confluent-kafka's errors as one of ours."""
    name = error.name()
    if name in ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT"):
        missing = None if client_config() else absence(bootstrap)
        return missing or BrokerUnreachable(
            f"the broker at {bootstrap} did not complete the request ({name})",
            hint="see what the broker logs; one that wants TLS or a login is reached with "
            "HEADWATER_CLIENT_CONFIG=FILE (docs/security.md)",
        )
    said = (error.str() or name).strip().rstrip(".")
    return RequestRefused(f"the broker refused: {said} ({name})", hint=_HINTS.get(name))


def absence(bootstrap: str) -> BrokerUnreachable | None:
    """What to say where no broker answers at any of the addresses; None where one does."""
    answers = {hello(address, CONNECT_TIMEOUT_S) for address in bootstrap.split(",")}
    if Answer.BROKER in answers:
        return None
    if Answer.SILENCE in answers:
        return BrokerUnreachable(
            f"what listens at {bootstrap} does not answer as a Kafka broker",
            hint="check the address, and what the broker logs",
        )
    return BrokerUnreachable(
        f"no broker answers at {bootstrap}",
        hint="start one with: headwater broker, or give its address with --bootstrap",
    )


_HINTS = {
    "UNKNOWN_TOPIC_OR_PART": "headwater topics list shows those that exist",
    "TOPIC_ALREADY_EXISTS": "headwater topics describe shows it; --if-missing accepts it",
    "TOPIC_EXCEPTION": "use letters, digits, dot, dash and underscore, at most 249 of them",
    "INVALID_CONFIG": "headwater settings lists names and defaults",
    "INVALID_PARTITIONS": "a topic's partitions can only become more",
}


@contextmanager
def opened(bootstrap: str) -> Iterator[Log]:
    """What `browse` asks, for the time of one command; that no broker answers is said at once."""
    check_presence(bootstrap)
    from headwater.cli.registry_words import settle_registry
    from headwater.client.log import Log

    settle_registry(is_others=True)
    with Log(bootstrap, client_config()) as log:
        try:
            yield log
        except BrokerUnreachable:
            if (said := log.login_refused()) is None:
                raise
            raise RequestRefused(
                f"the broker at {bootstrap} refused the login: {said}",
                hint="correct the file that HEADWATER_CLIENT_CONFIG names (docs/security.md)",
            ) from None


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(heads: list[str], rows: list[list[object]]) -> None:
    """Plain columns, numbers to the right; made for 80 columns and for grep."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[i]) for row in [heads, *cells]) for i in range(len(heads))]
    numeric = [
        all(isinstance(row[i], int) for row in rows) and bool(rows) for i in range(len(heads))
    ]
    for line in [heads, *cells]:
        print(
            "  ".join(
                text.rjust(width) if right else text.ljust(width)
                for text, width, right in zip(line, widths, numeric, strict=True)
            ).rstrip()
        )


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
