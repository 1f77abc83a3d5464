"""Debezium's source connectors as captures: the same envelope, topics called NAME.TABLE."""

from __future__ import annotations

import re
from urllib.parse import quote

from headwater.project.connect.configuration import Configuration, NotUnderstood
from headwater.project.connect.section import Outcome, safe_name, secret, tell_the_rest

_SCHEMES = {
    "PostgresConnector": ("postgresql", "5432"),
    "MySqlConnector": ("mysql", "3306"),
    "MariaDbConnector": ("mariadb", "3306"),
}
KINDS = frozenset({*_SCHEMES, "MongoDbConnector"})
_OF_CONNECT = (
    "name",
    "tasks.max",
    "database.server.name",
    "schema.history.internal.*",
    "database.history.*",
    "key.converter.*",
    "value.converter.*",
    "heartbeat.*",
    "max.batch.size",
    "max.queue.size*",
    "poll.interval.ms",
    "errors.*",
    "topic.creation.*",
    "provide.transaction.metadata",
    "plugin.name",
)
"""What Connect needs and a capture does by itself, or has in another place."""
_KNOWN = {
    "transforms": "Transforms run in a pipeline here, as plain PySpark.",
    "transforms.*": "Transforms run in a pipeline here, as plain PySpark.",
    "predicates.*": "Predicates belong to transforms: left out.",
    "snapshot.select.statement.overrides*": "A snapshot of chosen rows is `headwater capture snapshot`.",
    "signal.*": "Signals are `headwater capture snapshot TABLE`: no signal table is needed.",
    "column.*": "Columns are left out or masked in a pipeline, not in the capture.",
    "message.key.columns": "The key of a record is the table's primary key.",
    "skipped.operations": "All operations are captured.",
}
_MONGODB_LOGIN = re.compile(r"([a-z+]+://[^/?@:]*:)[^/?]*@")
"""Up to the last @ before the path, with the password behind the colon."""


def capture_of(configuration: Configuration) -> Outcome:
    kind = configuration.kind
    prefix = configuration.take("topic.prefix") or configuration.take("database.server.name")
    name = safe_name(prefix or configuration.name)
    outcome = Outcome()
    configuration.ignore(*_OF_CONNECT)
    section: dict[str, object] = {"from": _address(configuration, kind, name, outcome)}
    tables = [
        *configuration.words("table.include.list"),
        *configuration.words("collection.include.list"),
    ]
    if tables:
        section["tables"] = [_table(each, kind, outcome) for each in tables]
    for excluded in ("table.exclude.list", "collection.exclude.list", "schema.include.list"):
        if configuration.take(excluded):
            outcome.notes.append(
                f"{excluded} has no counterpart: name the tables that you want in `tables`."
            )
    section |= _format(configuration, outcome)
    if not configuration.flag("tombstones.on.delete", True):
        section["tombstones"] = False
    if kind == "PostgresConnector":
        section |= _slot(configuration, outcome)
    if kind in ("MySqlConnector", "MariaDbConnector") and configuration.take("database.server.id"):
        section["server_id"] = _number(configuration, "database.server.id")
    _snapshot(configuration, outcome)
    outcome.sections[f"capture.{name}"] = section
    _topics(configuration, kind, name, prefix, outcome)
    tell_the_rest(configuration, outcome, _KNOWN)
    return outcome


def _address(configuration: Configuration, kind: str, name: str, outcome: Outcome) -> str:
    variable = f"{name.upper()}_PASSWORD"
    if kind == "MongoDbConnector":
        address = configuration.take("mongodb.connection.string")
        secret(configuration, "mongodb.password", outcome, variable)
        found = _MONGODB_LOGIN.match(address)
        if found is not None:
            outcome.notes.append(
                f"The password in mongodb.connection.string is not copied: set {variable} in the "
                "environment, percent-encoded, or use a file (docs/security.md)."
            )
            address = f"{found[1]}${{{variable}}}@{address[found.end() :]}"
        return address or "mongodb://127.0.0.1:27017"
    scheme, usual = _SCHEMES[kind]
    host = configuration.take("database.hostname", "127.0.0.1")
    port = configuration.take("database.port", usual)
    user = quote(configuration.take("database.user"), safe="")
    password = secret(configuration, "database.password", outcome, variable)
    names = configuration.take("database.dbname") or configuration.take("database.include.list")
    if "," in names:
        outcome.notes.append(f"A capture is of one database; make one section for each of {names}.")
        names = names.partition(",")[0].strip()
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    ssl = configuration.take("database.sslmode") if kind == "PostgresConnector" else ""
    return f"{scheme}://{login}{host}:{port}/{names}" + (f"?sslmode={ssl}" if ssl else "")


def _number(configuration: Configuration, name: str) -> int:
    given = configuration.take(name).strip()
    if not given.isascii() or not given.isdigit() or len(given) > 10:
        raise NotUnderstood(
            f"{name} is {given[:40]!r}, which is no number", hint="put it right in the file"
        )
    return int(given)


def _table(given: str, kind: str, outcome: Outcome) -> str:
    """Debezium's are regular expressions of schema.table or database.table."""
    plain = given.replace("\\.", ".")
    if any(sign in plain for sign in "*+?[](){}|^$\\"):
        outcome.notes.append(f"{given} is a pattern: write the tables' names in its place.")
    head, dot, table = plain.partition(".")
    return table if dot and (kind != "PostgresConnector" or head == "public") else plain


def _format(configuration: Configuration, outcome: Outcome) -> dict[str, object]:
    configuration.ignore("key.converter", "key.converter.*", "value.converter.*")
    converter = configuration.take("value.converter").rpartition(".")[2]
    if converter == "AvroConverter":
        return {"format": "avro"}
    if converter == "JsonConverter" and configuration.flag("value.converter.schemas.enable", True):
        return {"schema": True}
    if converter not in ("", "JsonConverter"):
        outcome.notes.append(f"{converter} is not known to captures: the records are plain JSON.")
    return {}


def _slot(configuration: Configuration, outcome: Outcome) -> dict[str, object]:
    outcome.notes.append(
        "The capture makes a replication slot of its own (headwater_NAME) and begins with a snapshot; "
        "drop the connector's slot once it is stopped, or the server keeps WAL for it."
    )
    configuration.ignore("slot.name", "slot.drop.on.stop", "publication.autocreate.mode")
    publication = configuration.take("publication.name")
    return {"publication": publication} if publication else {}


def _snapshot(configuration: Configuration, outcome: Outcome) -> None:
    mode = configuration.take("snapshot.mode", "initial")
    if mode not in ("initial", "when_needed"):
        outcome.notes.append(f"snapshot.mode={mode}: a capture always begins with a snapshot.")


def _topics(
    configuration: Configuration, kind: str, name: str, prefix: str, outcome: Outcome
) -> None:
    between = "SCHEMA" if kind == "PostgresConnector" else "DATABASE"
    outcome.notes.append(
        f"Topics are called {name}.TABLE; Debezium's were {prefix or configuration.name}.{between}.TABLE."
    )
