"""Debezium beside headwater: the same statements on one server, envelopes compared field by field.

What differs is written down in `debezium.json`, from which docs/capture-debezium.md is made; a difference
that is not there, or is there no longer, fails. `HEADWATER_WRITE_DIFFERENCES=1` writes it anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bson import Binary, Int64

from bench.capture import debezium
from headwater import testing
from headwater.capture.runner import Runner
from headwater.testing.kafka_jars import MissingServer
from tests.capture.contract.columns import WithColumns
from tests.capture.contract.mongodb import VALUES, MongoDB
from tests.capture.contract.mysql import MySQLKind
from tests.capture.contract.servers import SERVERS, Entry
from tests.capture.contract.subject import Subject
from tests.capture.core.reading import Read, read
from tests.capture.postgres.running import eventually
from tests.capture.servers.builds import missing

LEDGER = Path(__file__).with_name("debezium.json")
STARTS_S = 240.0
# Values that Debezium takes, for types whose extremes it does not.
ORDINARY = {
    "numeric": "1.50", "numeric(1000,500)": "1.5", "real": "1.5", "double precision": "0.1",
    "date": "'2026-11-15'", "time": "'13:14:15.123456'", "timestamp": "'2026-11-15 13:00:00.123456'",
    "timestamptz": "'2026-11-15 13:00:00.125+02'", "timetz": "'13:14:15.5+05:30'",
    "interval": "'1 year 2 mons -3 days 04:05:06.789'", "int[]": "'{1,NULL}'",
    "money": "1234.5", "text": "'ü'", "bytea": "'\\x00ff'", "pg_lsn": "'16/B374D848'",
}  # fmt: skip
# Debezium ends at these: its parser of CREATE TABLE at the first two, its reader of the log at the third.
NOT_THERE = ("INET4", "INET6", "TEXT COMPRESSED")
# Which moment it was, and who says it: never the same.
NEVER_ALIKE = {"version", "name", "ts_ms", "ts_us", "ts_ns"}
_COMPARED = [one for one in SERVERS if one.quick and issubclass(one.subject, WithColumns)]
_SHORT = "MySQL 9.7"
"""In `make test`: PostgreSQL is compared by its own test_debezium, MariaDB in test_debezium_avro."""
_ENTRIES = [
    pytest.param(one, id=one.name, marks=() if one.name == _SHORT else pytest.mark.soak)
    for one in _COMPARED
]


def _columns(shop: WithColumns) -> list[tuple[str, str]]:
    last = {kind: values[-1] for kind, values, _ in shop.types}
    if isinstance(shop, MySQLKind):
        return [(kind, value) for kind, value in last.items() if kind not in NOT_THERE]
    return [(kind, ORDINARY.get(kind, value)) for kind, value in last.items()]


def _beside(shop: Subject, folder: Path) -> tuple[dict[str, str], str]:
    """Debezium's settings for the table d, and its topic."""
    name = f"dbz_{shop.name}"
    within = shop.name if isinstance(shop, MySQLKind | MongoDB) else "public"
    make, table = debezium.postgres_properties, f"{within}.d"
    if isinstance(shop, MySQLKind):
        oracle = shop.server.scheme == "mysql"
        make = debezium.mysql_properties if oracle else debezium.mariadb_properties
    elif isinstance(shop, MongoDB):
        make, table = debezium.mongodb_properties, "d"
    more = {"poll_interval_ms": "5", "provide_transaction_metadata": "true"}
    settings = make(name, shop.port, shop.name, table, folder, **more)
    return {**settings, "include.unknown.datatypes": "true"}, f"{name}.{within}.d"


@contextlib.contextmanager
def both(shop: Subject, bootstrap: str, folder: Path) -> Iterator[str]:
    """The two capture the table d; gives Debezium's topic."""
    settings, topic = _beside(shop, folder)
    try:
        process = debezium.start(settings, bootstrap, folder / "debezium.log")
    except MissingServer as error:
        missing(str(error))
    runner = Runner(shop.config("d", bootstrap=bootstrap, transactions=True))
    thread = threading.Thread(target=runner.run)
    thread.start()
    try:
        eventually("it streams", lambda: runner.status.phase == "streaming")

        def begun() -> bool:
            said = (folder / "debezium.log").read_text(errors="replace")[-3000:]
            assert process.poll() is None, said
            return bool(found(bootstrap, topic))

        eventually("Debezium has read the row", begun, STARTS_S)
        yield topic
    finally:
        runner.stop()
        thread.join(60)
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def found(bootstrap: str, topic: str) -> list[Read]:
    try:
        return read(bootstrap, topic)
    except (KeyError, AssertionError):
        return []


def differences(ours: list[Read], theirs: list[Read], kinds: list[str]) -> dict[str, Any]:
    """Of one database: what is not the same, by the kind of the record."""
    seen: dict[str, Any] = {"columns": {}, "records": []}
    told: set[str] = set()
    if len(ours) != len(theirs):
        told.add(f"records: {len(ours)} here, {len(theirs)} there")
    for mine, other in zip(ours, theirs, strict=False):
        if mine.key != other.key:
            told.add("key")
        if mine.value is None or other.value is None:
            continue
        a, b = mine.value, other.value
        for name in sorted(a.keys() | b.keys()):
            if name in ("source", "before", "after", *NEVER_ALIKE) or a.get(name) == b.get(name):
                continue
            told.add(f"`{a['op']}`: {name}" + _which(a.get(name), b.get(name)))
        for name in sorted(a["source"].keys() | b["source"].keys()):
            if name not in NEVER_ALIKE and a["source"].get(name) != b["source"].get(name):
                told.add(f"`{a['op']}`: source.{name}" + _lacking(name, a["source"], b["source"]))
        for image in ("before", "after"):
            for column in sorted((a[image] or {}).keys() | (b[image] or {}).keys()):
                x, y = (one[image] or {} for one in (a, b))
                if column == "id" or ((column in x) == (column in y) and x[column] == y[column]):
                    continue
                kind = kinds[int(column[1:])]
                shown = [_short(one[column]) if column in one else None for one in (x, y)]
                if image == "after":
                    seen["columns"][kind] = shown
                elif x.get(column) is None:
                    told.add(f"`{a['op']}`: before has values for columns outside the key there")
    seen["records"] = sorted(told)
    return seen


def _which(x: Any, y: Any) -> str:
    if isinstance(x, dict) and isinstance(y, dict):
        return "." + ", ".join(sorted(k for k in x.keys() | y.keys() if x.get(k) != y.get(k)))
    return ""


def _lacking(name: str, ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    if name not in theirs or (theirs[name] is None and ours.get(name) is not None):
        return " (only here)"
    return " (only there)" if name not in ours or ours[name] is None else ""


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


@pytest.mark.timeout(900)  # a Java process starts, perhaps on a busy machine
@pytest.mark.parametrize("entry", _ENTRIES)
def test_what_differs_from_debezium_is_what_is_written_down(entry: Entry, tmp_path: Path) -> None:
    with entry.running() as server, testing.broker(settings={"num.partitions": "1"}) as log:
        shop = entry.subject(server)
        assert isinstance(shop, WithColumns)
        columns = _columns(shop)
        kinds = [kind for kind, _ in columns]
        made = ", ".join(f"c{n} {kind}" for n, kind in enumerate(kinds))
        values = ", ".join(value for _, value in columns)
        names = ", ".join(f"c{n}" for n, _ in enumerate(kinds))
        shop.execute(*shop.before, f"CREATE TABLE d (id int PRIMARY KEY, {made})")
        shop.execute(f"INSERT INTO d VALUES (1, {values})")
        with both(shop, log.bootstrap, tmp_path) as topic:
            shop.execute(f"INSERT INTO d SELECT 2, {names} FROM d WHERE id = 1")
            shop.execute("UPDATE d SET c0 = NULL WHERE id = 2")
            shop.execute("UPDATE d SET id = 3 WHERE id = 2")
            shop.execute("DELETE FROM d WHERE id = 3", "INSERT INTO d (id) VALUES (4)")
            own = f"{shop.name}.d"
            for name in (own, topic):
                eventually(f"all is in {name}", lambda: _ended(log.bootstrap, name))  # noqa: B023
            seen = differences(read(log.bootstrap, own), read(log.bootstrap, topic), kinds)
        shop.close()
    _compare(entry, seen)


def _compare(entry: Entry, seen: dict[str, Any]) -> None:
    """With what is written down."""
    known = json.loads(LEDGER.read_text()) if LEDGER.exists() else {}
    if os.environ.get("HEADWATER_WRITE_DIFFERENCES") == "1":
        known[entry.name] = seen
        LEDGER.write_text(json.dumps(known, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    assert seen == known.get(entry.name)


@pytest.mark.timeout(900)
def test_what_differs_from_debeziums_documents_is_what_is_written_down(tmp_path: Path) -> None:
    (entry,) = [one for one in SERVERS if one.quick and one.subject is MongoDB]
    with entry.running() as server, testing.broker(settings={"num.partitions": "1"}) as log:
        shop = entry.subject(server)
        assert isinstance(shop, MongoDB)
        table, own = shop.database["d"], f"{shop.name}.d"
        document = {f"c{n}": value for n, value in enumerate(VALUES)}
        table.insert_one({"_id": 1, **document})
        shop.insert("mark", 1, 1)  # the stream begins with the last write before the snapshot
        with both(shop, log.bootstrap, tmp_path) as topic:
            steps: list[tuple[int, Callable[[], object]]] = [
                (2, lambda: table.insert_one({"_id": 2, **document})),
                (
                    3,
                    lambda: table.update_one(
                        {"_id": 2}, {"$set": {"c1": None}, "$unset": {"c2": 1}}
                    ),
                ),
                (4, lambda: table.replace_one({"_id": 2}, document)),
                (6, lambda: table.delete_one({"_id": 2})),  # and its tombstone
            ]
            for count, act in steps:
                act()
                for name in (own, topic):  # a document is looked up as it is then
                    eventually(f"{count} in {name}", partial(_has, log.bootstrap, name, count))
            ours, theirs = (
                [_with_documents(one) for one in read(log.bootstrap, name)] for name in (own, topic)
            )
        shop.close()
    _compare(entry, differences(ours, theirs, [_kind(value) for value in VALUES]))


def _has(bootstrap: str, topic: str, count: int) -> bool:
    return len(found(bootstrap, topic)) == count


def _with_documents(one: Read) -> Read:
    """Its documents as objects: how many blanks their text has is of no interest."""
    if one.value is None:
        return one
    value = dict(one.value)
    for image in ("before", "after"):
        document = json.loads(value[image] or "null")
        value[image] = document and {k: v for k, v in document.items() if k != "_id"}
    if told := value.get("updateDescription"):
        value["updateDescription"] = {**told, "updatedFields": json.loads(told["updatedFields"])}
    return one._replace(value=value)


def _kind(value: Any) -> str:
    if isinstance(value, Binary):
        return f"Binary, subtype {value.subtype}"
    text = f"Int64({value})" if isinstance(value, Int64) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _ended(bootstrap: str, topic: str) -> bool:
    return any(one.key and one.key.get("id") == 4 for one in found(bootstrap, topic))
