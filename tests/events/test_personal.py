"""Personal data is sealed wherever it lies, and forgotten with its key: in the files, and in the views."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from headwater import testing
from headwater.cli.app import run as headwater
from headwater.events import Aggregate, BlockingApplication
from headwater.events.errors import EventsError
from headwater.events.history import Reader
from headwater.events.key_topic import FORMER_TOPIC, TOPIC, KeyName
from headwater.events.keys import KeyPlace, Keys
from headwater.events.personal import Personal

SECRET = "Alice Liddell of Oxford"


@dataclass(frozen=True)
class Register:
    name: Personal


@dataclass(frozen=True)
class Registered:
    name: Personal


@dataclass(frozen=True)
class Customer:
    name: Personal | None = None


CUSTOMERS = Aggregate(
    "customers",
    Customer(),
    lambda state, command: Registered(command.name),
    lambda state, event: Customer(event.name),
    [Register],
    [Registered],
)


def in_the_files(folder: Path, wanted: bytes) -> list[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return [path.name for path in files if wanted in path.read_bytes()]


def rows_of(topic: str, bootstrap: str) -> dict[bytes, bytes]:
    """The topic as a table: what any view of it has."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "view", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: dict[bytes, bytes] = {}
    while True:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is not None:
            break
        key = message.key() or b""
        if message.value() is None:
            found.pop(key, None)
        else:
            found[key] = message.value()  # type: ignore[assignment]
    consumer.close()
    return found


def test_a_forgotten_subject_is_in_no_file_and_in_no_view(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with testing.broker(tmp_path) as broker:
        bootstrap = broker.bootstrap
        keys = Keys(bootstrap, refresh_s=0)
        with BlockingApplication(
            CUSTOMERS, bootstrap, owns="all", partitions=1, snapshot_every=1
        ) as app:
            app.send("customer-17", Register(keys.seal("customer-17", SECRET)))
            app.send("customer-18", Register(keys.seal("customer-18", "Bob")))
            mine, other = (app.state(f"customer-{n}").name for n in (17, 18))
            assert mine is not None and other is not None
            assert keys.reveal(mine) == SECRET
            fill_a_view(bootstrap, "customer-17", SECRET)
            key = wrapped_key(keys, mine)
            assert in_the_files(tmp_path, key) and in_the_files(tmp_path, SECRET.encode())

            said = forget(capsys, bootstrap, "customer-17", "--excise", "customer-notes")
            assert said["keys"] == said["key_records_excised"] == 1
            assert said["tombstones"] == ["customer-notes-0", "customer-view-0", "customers-0"]
            assert said["excised"] == {"customer-notes": 1, "customer-view": 1}

            assert keys.reveal(mine) is None  # a process that had the key in memory
            assert keys.reveal(other) == "Bob"
            assert rows_of("customer-view", bootstrap) == {b"customer-18": b"Bob"}
            # The application goes on, tombstone or not, and the history still tells what happened.
            app.send("customer-18", Register(keys.seal("customer-18", "Bobby")))
            app.send("customer-17", Register(keys.seal("customer-17", "somebody new")))
        with Reader(CUSTOMERS, bootstrap) as reader:
            first, second = (entry.event.name for entry in reader.history("customer-17"))
            assert keys.reveal(first) is None and keys.reveal(second) == "somebody new"
        with BlockingApplication(CUSTOMERS, bootstrap, owns="all") as app:
            assert app.held("customer-17").version == app.held("customer-18").version == 2
        fresh = Keys(bootstrap)
        assert fresh.reveal(mine) is None
        again = forget(capsys, bootstrap, "customer-17")
        assert again["keys"] == 1  # the new one; what was forgotten stays so
        fresh.close()
        keys.close()
        assert in_the_files(tmp_path, key) == []
        assert in_the_files(tmp_path, SECRET.encode()) == []
    assert in_the_files(tmp_path, SECRET.encode()) == []  # nor in what a clean stop leaves


def wrapped_key(keys: Keys, sealed: Personal) -> bytes:
    """As it lies in the log."""
    return keys._topics[0].keys[KeyName(sealed.subject, sealed.sealed.split(":")[0])].value


def fill_a_view(bootstrap: str, subject: str, text: str) -> None:
    """A view that holds the text as it is, in a compacted topic; and notes that are to be excised."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    compacted = {"cleanup.policy": "compact"}
    wanted = [NewTopic("customer-view", 1, 1, config=compacted), NewTopic("customer-notes", 1, 1)]
    for made in admin.create_topics(wanted).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("customer-view", text, subject)
    producer.produce("customer-view", "Bob", "customer-18")
    producer.produce("customer-notes", f"{text} called", subject)
    producer.flush(60)


def forget(
    capsys: pytest.CaptureFixture[str], bootstrap: str, subject: str, *more: str
) -> dict[str, Any]:
    words = ["forget", subject, "--yes", "--json", "--bootstrap", bootstrap, *more]
    assert headwater(words) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_master_key_seals_the_keys_themselves(name: str, bootstrap: str):
    master = bytes(range(32))
    topic = f"{name}.keys"
    with Keys(bootstrap, topic=topic, master=master) as keys:
        sealed = keys.seal("alice", "secret")
    with Keys(bootstrap, topic=topic, master=master) as keys:
        assert keys.reveal(sealed) == "secret"
    with (
        Keys(bootstrap, topic=topic, master=bytes(32)) as keys,
        pytest.raises(EventsError, match="another master key"),
    ):
        keys.reveal(sealed)


def test_what_was_sealed_cannot_be_moved_to_another_subject(name: str, bootstrap: str):
    with Keys(bootstrap, topic=f"{name}.keys") as keys:
        alice, bob = keys.seal("alice", "yes"), keys.seal("bob", "no")
        assert keys.reveal(alice) == "yes"
        assert keys.reveal(Personal("bob", alice.sealed)) is None  # bob has no such key
        moved = Personal("bob", bob.sealed.split(":")[0] + ":" + alice.sealed.split(":")[1])
        with pytest.raises(EventsError, match="has been changed"):
            keys.reveal(moved)


def test_a_key_that_was_destroyed_and_not_yet_excised_is_excised_with_the_next_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Somebody was killed between the tombstone and the excision, and the subject came back since."""
    with testing.broker(tmp_path) as broker, Keys(broker.bootstrap) as keys:
        sealed = keys.seal("alice", SECRET)
        key = wrapped_key(keys, sealed)
        keys.forget("alice")
        keys.seal("alice", SECRET)
        said = forget(capsys, broker.bootstrap, "alice")
        assert (said["keys"], said["key_records_excised"]) == (2, 2)
        assert in_the_files(tmp_path, key) == []


# ---- keys lie wrapped, and those from before stay good ---------------------------------------------------


def with_an_open_key(bootstrap: str, subject: str, text: str) -> tuple[Personal, bytes]:
    """What a version from before left behind: the key itself, in an ordinary topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    compacted = {"cleanup.policy": "compact"}
    for made in admin.create_topics([NewTopic(FORMER_TOPIC, 1, 1, config=compacted)]).values():
        made.result(60)
    key, nonce = os.urandom(32), os.urandom(12)
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(FORMER_TOPIC, b64encode(key), f"{subject}\0former".encode(), 0)
    producer.produce(FORMER_TOPIC, b64encode(b"too short"), f"{subject}\0other".encode(), 0)
    producer.produce(TOPIC, b64encode(key), f"{subject}\0planted".encode(), 0)
    assert producer.flush(30) == 0
    sealed = nonce + AESGCM(key).encrypt(nonce, text.encode(), subject.encode())
    return Personal(subject, f"former:{b64encode(sealed).decode()}"), key


def test_an_open_key_reveals_and_never_seals_until_it_is_moved_under_the_master_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with testing.broker(tmp_path) as broker, Keys(broker.bootstrap, refresh_s=0) as keys:
        sealed, key = with_an_open_key(broker.bootstrap, "alice", SECRET)
        assert keys.reveal(sealed) == SECRET
        mine = keys.seal("alice", "new")
        assert not mine.sealed.startswith(("former:", "planted:"))
        assert keys.reveal(mine) == "new"
        assert in_the_files(tmp_path, b64encode(key))

        words = ["keys", "move", "--json", "--bootstrap", broker.bootstrap]
        assert headwater(words) == 0
        assert json.loads(capsys.readouterr().out) == {"moved": 2, "excised": 2}
        assert in_the_files(tmp_path, b64encode(key)) == []
        assert keys.reveal(sealed) == SECRET
        assert keys.move() == []

        assert forget(capsys, broker.bootstrap, "alice")["keys"] == 3
        assert keys.reveal(sealed) is None and keys.reveal(mine) is None


def test_a_key_from_before_is_forgotten_where_it_lies(tmp_path: Path):
    with testing.broker(tmp_path) as broker, Keys(broker.bootstrap, refresh_s=0) as keys:
        sealed, _ = with_an_open_key(broker.bootstrap, "alice", SECRET)
        assert keys.forget("alice") == [KeyPlace(TOPIC, 0), KeyPlace(FORMER_TOPIC, 0)]
        assert keys.reveal(sealed) is None


def test_a_log_without_a_master_key_gets_one_and_another_machine_must_have_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, bootstrap: str
):
    monkeypatch.delenv("HEADWATER_MASTER_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "here"))
    with Keys(bootstrap, topic=f"{name}.keys") as keys:
        sealed = keys.seal("alice", SECRET)
    file = tmp_path / "here" / "headwater" / "master.key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["master.key"]

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "there"))
    with Keys(bootstrap, topic=f"{name}.keys") as keys:
        with pytest.raises(EventsError, match="a master key that is not here"):
            keys.seal("bob", "text")
        with pytest.raises(EventsError, match="another master key"):
            keys.reveal(sealed)
        assert not (tmp_path / "there").exists()
        monkeypatch.setenv("HEADWATER_MASTER_KEY", f"file:{file}")
        assert keys.reveal(sealed) == SECRET
    monkeypatch.setenv("HEADWATER_MASTER_KEY", "no key")
    with (
        Keys(bootstrap, topic=f"{name}.keys") as keys,
        pytest.raises(EventsError, match="HEADWATER_MASTER_KEY holds no master key"),
    ):
        keys.reveal(sealed)
