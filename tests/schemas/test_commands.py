"""`headwater schemas`: what each command prints, and bringing another registry's schemas."""

# ruff: noqa: E501  (records stand on a line)

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from headwater.client.log import Log
from headwater.client.publisher import Draft, Publisher
from headwater.schemas import changes, deletion, migration, records
from headwater.schemas.client import RegistryClient
from headwater.schemas.errors import RegistryError
from headwater.schemas.model import Reference, Schema
from headwater.schemas.state import State
from headwater.schemas.store import Store
from headwater.testing import broker
from tests.schemas.conftest import serving

ONE = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
TWO = ('{"type":"record","name":"Order","fields":[{"name":"id","type":"long"},'
       '{"name":"note","type":"string","default":""}]}')  # fmt: skip
BAD = '{"type":"record","name":"Order","fields":[{"name":"id","type":"string"}]}'


def run(*words: str, given: str = "", folder: Path | None = None) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, "-m", "headwater", "schemas", *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder or "/",
    )
    return ended.returncode, ended.stdout + (ended.stderr if ended.returncode else "")


def test_register_check_show_compare_and_list(registry, tmp_path):
    at = ("--registry", registry)
    (tmp_path / "one.avsc").write_text(ONE)
    (tmp_path / "bad.avsc").write_text(BAD)
    code, said = run("register", "cli-value", str(tmp_path / "one.avsc"), *at)
    assert code == 0 and int(said) > 0
    code, said = run("check", "cli-value", str(tmp_path / "bad.avsc"), *at)
    assert code == 1 and "TYPE_MISMATCH" in said and "/fields/0/type" in said
    code, said = run("register", "cli-value", str(tmp_path / "bad.avsc"), *at)
    assert code == 1 and said.startswith("headwater: Schema being registered is incompatible")
    assert run("check", "cli-value", "-", *at, given=TWO) == (
        0,
        "cli-value would take it (BACKWARD)\n",
    )
    assert run("register", "cli-value", "-", *at, given=TWO)[0] == 0
    code, said = run("show", "cli-value", "1", *at)
    assert (
        code == 0 and said.startswith("# cli-value, version 1, id ") and '"name": "Order"' in said
    )
    code, said = run("diff", "cli-value", "1", *at)
    assert code == 0 and '+      "name": "note",' in said and "--- cli-value version 1" in said
    assert run("diff", "cli-value", *at) == (0, said)
    assert run("compat", "FULL", "--subject", "cli-value", *at) == (0, "FULL\n")
    code, said = run("list", "cli-", *at, "--json")
    assert json.loads(said)[0] | {"id": 0} == {
        "subject": "cli-value", "versions": 2, "latest": 2, "id": 0, "type": "AVRO", "level": "FULL"}  # fmt: skip
    code, said = run("show", "nobody", *at)
    assert code == 1 and said == "headwater: Subject 'nobody' not found.\n"
    code, said = run("list", "--registry", "http://127.0.0.1:1")
    assert code == 1 and "does not answer" in said


def test_the_client_of_headwaters_own_programs(registry):
    with RegistryClient(registry) as client:
        first = client.register(
            "own-money", Schema('syntax = "proto3"; message Money { int64 c = 1; }', "PROTOBUF")
        )
        text = 'syntax = "proto3"; import "m.proto"; message Order { Money total = 1; }'
        order = Schema(text, "PROTOBUF", (Reference("m.proto", "own-money", 1),))
        second = client.register("own-order", order)
        assert second != first and client.by_id(second).references == order.references
        assert client.find("own-order", order).version == 1
        assert client.find("own-order", Schema('syntax = "proto3";', "PROTOBUF")) is None
        assert client.versions("own-order") == [1]
        assert client.level("own-order") == "BACKWARD"
        with pytest.raises(RegistryError) as refused:
            client.version("own-nobody")
        assert refused.value.code == 40401


def confluent_topic(bootstrap: str) -> None:
    """A topic as Confluent's registry leaves it: fields that we do not write, a deletion, settings, rubbish."""

    def key(kind: str, **more: object) -> bytes:
        magic = 1 if kind == "SCHEMA" else 0
        return json.dumps({"keytype": kind, **more, "magic": magic}, separators=(",", ":")).encode()

    def value(subject: str, version: int, identity: int, text: str, **more: object) -> bytes:
        made = {"subject": subject, "version": version, "id": identity, "md5": "x", "schema": text}
        return json.dumps(made | {"deleted": False, "offset": 3, "ts": 1} | more).encode()

    given = [
        (key("NOOP"), None),
        (key("SCHEMA", subject="a-value", version=1), value("a-value", 1, 100_001, ONE)),
        (key("SCHEMA", subject="a-value", version=2), value("a-value", 2, 100_007, TWO)),
        (
            key("SCHEMA", subject=":.t:b", version=1),
            value(":.t:b", 1, 5, '{"type":"string"}', schemaType="JSON"),
        ),
        (key("SCHEMA", subject="old", version=1), value("old", 1, 100_009, '"int"')),
        (key("DELETE_SUBJECT", subject="old"), b'{"subject":"old","version":1}'),
        (key("CONFIG", subject=None), b'{"subject":null,"compatibilityLevel":"FULL"}'),
        (key("MODE", subject="a-value"), b'{"subject":"a-value","mode":"READONLY"}'),
        (key("CONFIG", subject="later"), b'{"subject":"later","compatibilityLevel":"NONE"}'),
        (key("CONTEXT", context="x"), b"{}"),
        (b"rubbish", b"rubbish"),
    ]
    with Log(bootstrap) as log:
        log.ensure_topic(records.TOPIC, {"cleanup.policy": "compact"}, 1)
        publisher = Publisher({"bootstrap.servers": bootstrap})
        publisher.put(records.TOPIC, *(Draft(k, v) for k, v in given))


def test_import_keeps_ids_versions_levels_and_modes():
    with broker() as theirs, broker() as ours:
        confluent_topic(theirs.bootstrap)
        words = ("import", "--from", theirs.bootstrap, "--bootstrap", ours.bootstrap)
        code, said = run(*words, "--dry-run")
        assert code == 0 and said == "7 records would be imported\n", said
        assert run(*words) == (0, "7 records imported\n")
        assert run(*words) == (0, "0 records imported\n")
        with serving(ours.bootstrap) as url, httpx.Client(base_url=url, timeout=60) as http:
            assert http.get("/subjects").json() == [":.t:b", "a-value"]
            assert http.get("/schemas/ids/100007").json()["schema"] == TWO
            assert http.get("/subjects?deleted=true").json() == [":.t:b", "a-value", "old"]
            assert http.get("/config").json()["compatibilityLevel"] == "FULL"
            assert http.get("/mode/a-value").json() == {"mode": "READONLY"}
            assert http.get("/config/later").json()["compatibilityLevel"] == "NONE"
            assert http.get("/contexts/.t/schemas/ids/5").json()["schemaType"] == "JSON"
            made = http.post("/subjects/new/versions", json={"schema": '"double"'}).json()
            assert made["id"] == 100_010


def test_an_import_is_of_as_many_records_as_were_counted(monkeypatch):
    monkeypatch.setattr(records, "BATCH_BYTES", 1)  # each record in a part of its own
    again, deleted = Schema('"int"'), Schema('"long"')
    theirs = stated(
        records.schema_record(records.Version("a-value", 1, 1, again)),
        records.id_gone(".", 1, again.guid),
        records.schema_record(records.Version("a-value", 2, 7, deleted)),
        records.schema_gone("a-value", 2),
    )
    ours = State()
    counted, imported = migration.count(theirs, ours), 0
    while (part := migration.missing(theirs, ours)).answer:
        imported += part.answer
        apply(ours, *part.records)
    assert (counted, imported, ours.next_id(".")) == (2, 2, 8)


def test_an_import_of_two_schemas_under_one_id_stops():
    one, other = (records.Version(name, 1, 7, Schema(f'"{name}"')) for name in ("int", "long"))
    theirs = stated(records.schema_record(one), records.schema_record(other))
    for ask in (migration.missing, migration.count):
        with pytest.raises(RegistryError, match="the id 7 is that of version 1 of int here and"):
            ask(theirs, State())


def stated(*made: records.Record) -> State:
    state = State()
    apply(state, *made)
    return state


def apply(state: State, *made: records.Record) -> None:
    for each in made:
        fact = records.decoded(*each)
        assert fact is not None
        state.apply(fact)


def test_a_registry_serves_a_topic_that_another_has_written():
    with broker() as kafka:
        confluent_topic(kafka.bootstrap)
        with serving(kafka.bootstrap) as url:
            assert httpx.get(f"{url}/subjects/a-value/versions", timeout=60).json() == [1, 2]


def test_an_import_that_would_give_an_id_another_meaning_stops():
    with broker() as theirs, broker() as ours:
        confluent_topic(theirs.bootstrap)
        with Log(ours.bootstrap) as log, Store(log):
            version = records.Version("mine", 1, 100_001, Schema('"boolean"'))
            Publisher({"bootstrap.servers": ours.bootstrap}).put(
                records.TOPIC, Draft(*records.schema_record(version))
            )
        words = ("import", "--from", theirs.bootstrap, "--bootstrap", ours.bootstrap)
        code, said = run(*words)
        assert code == 1 and "the id 100001 of a-value is that of mine there" in said
        with Log(ours.bootstrap) as log, Store(log) as store:
            assert store.state.subjects() == ["mine"]


def test_an_import_takes_no_id_away_from_a_version_that_is_there():
    with broker() as theirs, broker() as ours:
        confluent_topic(theirs.bootstrap)
        with Log(theirs.bootstrap) as log, Store(log) as store:
            (first, *_) = store.state.versions("a-value", deleted=True)
        with Log(ours.bootstrap) as log, Store(log):
            mine = records.Version("a-value", first.version, 1, first.schema)
            Publisher({"bootstrap.servers": ours.bootstrap}).put(
                records.TOPIC, Draft(*records.schema_record(mine))
            )
        code, said = run("import", "--from", theirs.bootstrap, "--bootstrap", ours.bootstrap)
        assert code == 1 and f"version {first.version} of a-value has the id 1 there" in said
        with Log(ours.bootstrap) as log, Store(log) as store:
            assert [each.id for each in store.state.versions("a-value")] == [1]


def test_an_import_leaves_levels_modes_and_deletions_as_they_are_here():
    with broker() as theirs, broker() as ours:
        confluent_topic(theirs.bootstrap)
        words = ("import", "--from", theirs.bootstrap, "--bootstrap", ours.bootstrap)
        assert run(*words)[0] == 0
        with Log(ours.bootstrap) as log, Store(log) as store:
            store.change(lambda state: changes.set_mode(state, "a-value", "READWRITE", force=False))
            store.change(
                lambda state: changes.set_config(state, None, {"compatibility": "BACKWARD"})
            )
            store.change(
                lambda state: deletion.delete_version(state, "a-value", 2, permanent=False)
            )
        code, said = run(*words)
        assert code == 0 and "0 records imported" in said, said
        with Log(ours.bootstrap) as log, Store(log) as store:
            assert store.state.mode("a-value") == "READWRITE"
            assert store.state.config_in_force(None)["compatibilityLevel"] == "BACKWARD"
            assert [each.is_deleted for each in store.state.versions("a-value", deleted=True)] == [
                False,
                True,
            ]
            with Log(theirs.bootstrap) as there, Store(there) as source:
                left = migration.differing(source.state, store.state)
        assert left == [
            "version 2 of a-value is deleted here",
            "the level of all subjects is BACKWARD here",
            "the mode of a-value is READWRITE here, and READONLY there",
        ]
