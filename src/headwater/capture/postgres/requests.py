"""Logical messages: what the capture that runs is asked for, through the database's own log (read there by
`incremental`), and those of others, as records.

{"log": true}                                  look into the topic __headwater_NAME_requests
{"tables": ["public.orders"], "id": "5f0c"}    published just now, or with fewer partitions: from the first
                                               row, after a truncate event

Every role of the database may leave one, and the stream does not say whose it is. So what people ask for lies
in the log, where only who may write there can leave it; and of tables it is believed only where its own
transaction has published them, which the catalogue knows, or where this capture waits for it (`Awaited`).
"""

from __future__ import annotations

import json
import uuid
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headwater.capture import requests as in_log
from headwater.capture.change import Position, Record
from headwater.capture.config import CaptureConfig
from headwater.capture.envelope import dumps, quote
from headwater.capture.errors import Misconfigured
from headwater.capture.outbox import OPTIONAL, REQUIRED, Router
from headwater.capture.postgres.catalog import Catalog, Table
from headwater.capture.postgres.connection import Connection, identifier, literal, plain
from headwater.capture.postgres.pgoutput import LogicalMessage
from headwater.capture.postgres.relations import Relations, now_text, outbox_place
from headwater.capture.requests import NO_REQUEST, Entry, Requests
from headwater.capture.source import Range, check_range
from headwater.client.log import Log
from headwater.client.topics import ensure

REQUEST = "headwater.snapshot"
Note = Callable[[str, object], None]
"""Keeps something in the position."""


class Asked(NamedTuple):
    tables: list[str]
    identity: str
    in_log: bool


def parse(content: str) -> Asked | None:
    """None: it is somebody else's, under our name."""
    try:
        asked = json.loads(content)
        wanted = [str(name) for name in asked.get("tables", [])]
        "".join(wanted).encode()  # half of a character cannot be sent to the server
        return Asked(wanted, str(asked.get("id", "")), bool(asked.get("log")))
    except NO_REQUEST:
        return None


def begin_anew(connection: Connection, tables: list[str], identity: str = "") -> None:
    """At this place of the database's log; without an identity in the transaction that publishes them."""
    _emit(connection, {"tables": tables} | ({"id": identity} if identity else {}))


def request(
    connection: Connection, config: CaptureConfig, tables: list[str], where: str | None = None
) -> None:
    """Into our log, and then a word through the database's that it is there."""
    with Log(config.bootstrap, config.client) as log:
        ensure(log, in_log.topic(config), 1)
    in_log.ask(config, tables, where)
    _emit(connection, {"log": True})


_PUBLISHED_BY = """
SELECT n.nspname || '.' || c.relname FROM pg_publication_rel r
JOIN pg_publication p ON p.oid = r.prpubid JOIN pg_class c ON c.oid = r.prrelid
JOIN pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = %s AND r.xmin::text = %s
"""


def published_by(connection: Connection, publication: str, xid: int) -> list[str]:
    """The tables that this transaction has put into it."""
    with plain():
        return [row[0] for row in connection.execute(_PUBLISHED_BY, [publication, str(xid)])]


class Awaited:
    """What this capture has asked itself for, at a place of the database's log, and over restarts.

    in the position:  {"awaited": {"5f0c": ["public.orders"]}}
    """

    def __init__(self, note: Note, position: Position) -> None:
        self._note = note
        self._known: dict[str, list[str]] = dict(position.get("awaited", {}))

    def ask(self, connection: Connection, tables: list[str]) -> None:
        identity = uuid.uuid4().hex
        begin_anew(connection, tables, identity)
        self._known = {**self._known, identity: tables}
        self._note("awaited", self._known)

    def take(self, identity: str) -> list[str]:
        """The tables that were asked for as that; nothing if it is somebody else's."""
        tables = self._known.get(identity, [])
        self._known = {each: found for each, found in self._known.items() if each != identity}
        self._note("awaited", self._known or None)
        return tables


def _emit(connection: Connection, asked: dict[str, object]) -> None:
    with plain():
        connection.execute("SELECT pg_logical_emit_message(true, %s, %s)", [REQUEST, dumps(asked)])


class InLog:
    """Its topic in our log: looked into from the first word on that it has something, over restarts."""

    def __init__(self, config: CaptureConfig, note: Note, position: Position) -> None:
        self._config, self._note = config, note
        self._requests: Requests | None = None
        if "requests" in position:
            self.begin(position["requests"])

    def begin(self, offset: int = 0) -> None:
        if self._requests is None:
            self._requests = Requests(self._config, offset)
            self._note("requests", offset)

    def take(self) -> list[Entry]:
        """What was left since the last time; never waits."""
        if self._requests is None:
            return []
        wanted = self._requests.take()
        self._note("requests", self._requests.offset)
        return wanted

    def close(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None

    def instead_of(self, tables: list[str]) -> str:
        return (
            f"{', '.join(tables)} was not read again: that was asked for in the database, "
            "where every role may ask; `headwater capture snapshot` leaves it in "
            f"{in_log.topic(self._config)}"
        )


def ask(
    connection: Connection,
    config: CaptureConfig,
    publication: str,
    tables: list[str],
    within: Range,
) -> str:
    """Look whether it can be done, and request it; a sentence on how."""
    check_range(tables, within)
    published = {table.collection: table for table in Catalog(connection).tables(publication)}
    wanted = [name if "." in name else f"public.{name}" for name in tables]
    for name in wanted:
        _refuse(config, published, name)
    where = condition(published[wanted[0]], within) if not within.whole else None
    if where is not None:
        with plain():  # a mistake is told here, and not to the capture that runs
            connection.execute(
                f"SELECT 1 FROM {published[wanted[0]].own_rows} WHERE {where} LIMIT 0".encode()
            )
    outbox = outbox_place(config)
    others = [name for name in published if tuple(name.split(".", 1)) != outbox]
    request(connection, config, wanted or others, where)
    rows = "" if where is None else f" where {where}"
    asked = ", ".join(wanted) or "all tables"
    return f"asked for {asked}{rows}; it begins while the capture runs"


def _refuse(config: CaptureConfig, published: Mapping[str, Table], name: str) -> None:
    """Raise where a table cannot be read again."""
    if name not in published:
        raise Misconfigured(
            f"{name} is not captured", hint=f"captured: {', '.join(published) or 'nothing yet'}"
        )
    if outbox_place(config) == tuple(name.split(".", 1)):
        raise Misconfigured(
            f"{name} is an outbox: its events would be sent twice",
            hint="read the topics that its rows name from the beginning",
        )
    if not published[name].key():
        raise Misconfigured(
            f"{name} has no key, so its rows cannot be told apart while it changes",
            hint="give it a primary key, or start over: headwater capture run --resnapshot",
        )


def condition(table: Table, within: Range) -> str:
    """Which rows, in SQL."""
    parts = [f"({within.where})"] if within.where is not None else []
    for sign, value in ((">=", within.first), ("<=", within.last)):
        if value is not None:
            parts.append(f"{identifier(table.key()[0])} {sign} {literal(value)}")
    return " AND ".join(parts)


class Messages:
    """Logical messages of others as records: events of the outbox, or for readers of messages."""

    def __init__(self, config: CaptureConfig, relations: Relations) -> None:
        self._name, self._topics = config.name, relations.topics
        self._prefix = config.option("outbox_prefix", "")
        self._outbox: Router | None = None
        if self._prefix:
            self._outbox = Router(config.name, self._prefix, (*REQUIRED, *OPTIONAL))
            self._topics[self._outbox.dead_letters] = None

    def record(self, message: LogicalMessage, time_us: int, xid: int | None) -> Record:
        if self._outbox is not None and message.prefix == self._prefix:
            event = self._outbox.message(message.content)
            self._topics[event[0]] = None
            return event
        return _record(self._name, message, now_text(), time_us, xid)


def _record(name: str, message: LogicalMessage, now: str, time_us: int, xid: int | None) -> Record:
    """A message of somebody else's, for readers of the capture of that name."""
    value = (
        f'{{"op":"m"{now},'
        f'"source":{{"connector":"postgresql","name":{quote(name)},"snapshot":"false",'
        f'"ts_ms":{time_us // 1000},"txId":{"null" if xid is None else xid},'
        f'"lsn":{message.lsn}}},"message":{{"prefix":{quote(message.prefix)},'
        f'"content":"{b64encode(message.content).decode("ascii")}"}}}}'
    )
    return (f"{name}.message", dumps({"prefix": message.prefix}).encode(), value.encode())
