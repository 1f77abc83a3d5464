"""Debezium's source connectors as captures: the same envelope, topics called NAME.TABLE."""

from __future__ import annotations

import re
from urllib.parse import quote

from headwater.project.connect.configuration import Configuration, NotUnderstood
from headwater.project.connect.known import SOURCE
from headwater.project.connect.section import Outcome, safe_name, secret, tell_the_rest

_SCHEMES = {
    "PostgresConnector": ("postgresql", "5432"),
    "MySqlConnector": ("mysql", "3306"),
    "MariaDbConnector": ("mariadb", "3306"),
}
KINDS = frozenset({*_SCHEMES, "MongoDbConnector"})
_MONGODB_LOGIN = re.compile(r"([a-z+]+://[^/?@:]*:)[^/?]*@")
"""Up to the last @ before the path, with the password behind the colon."""


def capture_of(configuration: Configuration) -> Outcome:
    kind = configuration.kind
    prefix = configuration.take("topic.prefix") or configuration.take("database.server.name")
    name = safe_name(prefix or configuration.name)
    outcome = Outcome()
    section: dict[str, object] = {"from": _address(configuration, kind, name, outcome)}
    tables = [
        *configuration.words("table.include.list"),
        *configuration.words("collection.include.list"),
    ]
    if tables:
        section["tables"] = [_table(each, kind, outcome) for each in tables]
    section |= _format(configuration, outcome)
    if not configuration.flag("tombstones.on.delete", True):
        section["tombstones"] = False
    if kind == "PostgresConnector":
        section |= _slot(configuration, outcome)
    if kind in ("MySqlConnector", "MariaDbConnector"):
        section |= _mysql(configuration)
    elif kind == "PostgresConnector" and not configuration.take("decimal.handling.mode"):
        outcome.notes.append(
            "Decimals are texts, which lose nothing; Debezium's were bytes (decimal.handling.mode=precise)."
        )
    section |= _shared(configuration, kind)
    _snapshot(configuration, outcome)
    outcome.sections[f"capture.{name}"] = section
    _topics(configuration, kind, name, prefix, outcome)
    tell_the_rest(configuration, outcome, SOURCE)
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
        address = address or "mongodb://127.0.0.1:27017"
        user = quote(configuration.take("mongodb.user"), safe="")
        scheme, _, rest = address.partition("://")
        if user and "@" not in rest.partition("/")[0]:
            address = f"{scheme}://{user}:${{{variable}}}@{rest}"
        database = configuration.take("mongodb.authsource")
        if database and "authsource=" not in address.lower():
            path = "" if "/" in rest else "/"
            address += (
                f"{path}{'&' if '?' in address else '?'}authSource={quote(database, safe='')}"
            )
        return address
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


def _mysql(configuration: Configuration) -> dict[str, object]:
    found: dict[str, object] = {}
    if configuration.take("database.server.id"):
        found["server_id"] = _number(configuration, "database.server.id")
    mode = configuration.take("decimal.handling.mode", "precise").lower()
    if mode in ("precise", "double"):
        found["decimals"] = mode
    return found


def _shared(configuration: Configuration, kind: str) -> dict[str, object]:
    """What every capture can be told, or every one of a database with tables."""
    found: dict[str, object] = {}
    if configuration.take("provide.transaction.metadata").strip().lower() == "false":
        found["transactions"] = False
    if configuration.take("topic.creation.default.partitions", "-1").strip() != "-1":
        found["partitions"] = _number(configuration, "topic.creation.default.partitions")
    if kind != "MongoDbConnector" and configuration.take("snapshot.max.threads"):
        found["snapshot_workers"] = _number(configuration, "snapshot.max.threads")
    return found


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
