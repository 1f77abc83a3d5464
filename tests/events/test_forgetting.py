"""What was excised is in no file: not beside the events, nor among dead letters; no owner brings it back."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headwater import testing
from headwater.cli.app import run as headwater
from headwater.client.errors import RequestRefused
from headwater.client.partitioner import by_crc32, by_murmur2
from headwater.events import Aggregate, Application, Refused, derived_topics
from headwater.events.history import Reader
from headwater.events.saga import Saga
from tests.events.conftest import QUICK_GROUPS
from tests.events.test_personal import forget
from tests.events.test_saga import until

SECRET = "Alice Liddell of Oxford"


@dataclass(frozen=True)
class Note:
    text: str


@dataclass(frozen=True)
class Noted:
    text: str


@dataclass(frozen=True)
class Notes:
    texts: tuple[str, ...] = ()


def decide(notes: Notes, command: Note) -> Any:
    if "never" in command.text:
        return Refused(f"{command.text} is not noted")
    return Noted(command.text)


NOTES = Aggregate(
    "notes",
    Notes(),
    decide,
    lambda notes, event: Notes((*notes.texts, event.text)),
    [Note],
    [Noted],
)


def poison(event: Any) -> Any:
    if SECRET in event.data.text:
        raise ValueError("a saga that takes no secrets")
    return None


async def filled(bootstrap: str, capsys: pytest.CaptureFixture[str], data: Path) -> None:
    options: dict[str, Any] = {"partitions": 1, "snapshot_every": 1, "session_timeout_ms": 2000}
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        owner: Application[Notes] = await enter(Application(NOTES, bootstrap, **options))
        client: Application[Notes] = await enter(Application(NOTES, bootstrap, owns="none"))
        saga = await enter(Saga("filing", NOTES, poison, [owner], bootstrap))
        await client.send("alice", Note(f"{SECRET} called"))
        await client.send("alice", Note(f"{SECRET} never called"))
        await client.send("bob", Note("Bob called"))
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce(NOTES.inbox, f"{SECRET}, and no command".encode(), b"alice", 0)
        producer.flush(60)

        async def buried() -> bool:
            return saga.buried == 1 and await has_letter(bootstrap)

        await until(buried)
        assert topics_with(data, SECRET) >= {
            *("notes-0", "notes.snapshots-0", "notes.answers-0", "notes.commands-0"),
            *("dlq.notes.owners-0", "dlq.notes.saga.filing-0"),
        }
        said = await asyncio.to_thread(forget, capsys, bootstrap, "alice", "--excise", "notes")
        assert {name: bool(count) for name, count in said["excised"].items()} == {
            "dlq.notes.owners": True,
            "dlq.notes.saga.filing": True,
            "notes": True,
            "notes.answers": True,
            "notes.commands": True,
            "notes.saga.filing.retry": False,
            "notes.snapshots": True,
        }
        assert set(said["skipped"]) == {"notes.replies"}
        await client.send("bob", Note("Bob called again"))  # snapshots are written after it

        async def dropped() -> bool:
            return (await owner.held("alice")) == (Notes(), 0)

        await until(dropped)
        await client.send("bob", Note("and again"))
        assert (await owner.state("bob")).texts == ("Bob called", "Bob called again", "and again")
    assert topics_with(data, SECRET) <= {"notes.replies-0"}


async def has_letter(bootstrap: str) -> bool:
    from headwater.browse.dead_letters.survey import open_letters

    def look() -> bool:
        with open_letters({"bootstrap.servers": bootstrap}, NOTES.letters) as letters:
            return any(True for _ in letters.all())

    return await asyncio.to_thread(look)


def topics_with(data: Path, text: str) -> set[str]:
    files = (path for path in data.rglob("*.log") if path.is_file())
    return {path.parent.name for path in files if text.encode() in path.read_bytes()}


def test_everything_that_derives_from_a_topic_is_excised_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with testing.broker(tmp_path, settings=QUICK_GROUPS) as broker:
        asyncio.run(filled(broker.bootstrap, capsys, tmp_path))
        with Reader(NOTES, broker.bootstrap) as reader:
            assert reader.held("alice") == (Notes(), 0)
            assert len(reader.state("bob").texts) == 3
    assert topics_with(tmp_path, SECRET) <= {"notes.replies-0"}


async def idle(bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    async with Application(NOTES, bootstrap, owns="all", partitions=1) as owner:
        await owner.send("alice", Note(SECRET))
        await asyncio.to_thread(forget, capsys, bootstrap, "alice", "--excise", "notes")

        async def dropped() -> bool:
            return (await owner.held("alice")) == (Notes(), 0)

        await until(dropped)  # though nobody sends anything
        answer = await owner.send("alice", Note("somebody new"))
        assert answer.version == 1  # type: ignore[union-attr]


def test_an_owner_without_work_drops_the_state_too(capsys: pytest.CaptureFixture[str]):
    with testing.broker() as broker:
        asyncio.run(idle(broker.bootstrap, capsys))


def test_snapshots_are_not_excised_without_their_events(capsys: pytest.CaptureFixture[str]):
    async def fill(bootstrap: str) -> None:
        async with Application(NOTES, bootstrap, owns="all", partitions=1) as owner:
            await owner.send("alice", Note("hello"))

    with testing.broker() as broker:
        asyncio.run(fill(broker.bootstrap))
        words = ["--key", "alice", "--yes", "--bootstrap", broker.bootstrap]
        with pytest.raises(RequestRefused, match="as if notes had no such events"):
            headwater(["excise", "notes.snapshots", *words])
        assert headwater(["excise", "notes", *words]) == 0
        assert "Not touched: notes.answers, notes.commands, notes.snapshots" in (
            capsys.readouterr().out
        )


def test_what_derives_from_a_topic_is_known_by_name():
    known = ["a", "a.answers", "a.commands", "a.replies", "a.saga.x.retry", "a.b", "ab.answers"]
    assert derived_topics.topics_of("a", known) == ["a.answers", "a.commands", "a.saga.x.retry"]
    assert derived_topics.source_of("a.replies", known) == "a"
    assert derived_topics.source_of("ab.answers", known) is None
    assert derived_topics.letters(["dlq.a", "v.dead-letters", "a"]) == ["dlq.a", "v.dead-letters"]


def test_records_are_found_wherever_they_were_put_and_whatever_came_after_them(
    capsys: pytest.CaptureFixture[str],
):
    """Some clients place keys by hashes of their own; and a tombstone takes nothing out of files."""
    key, count = b"alice", 3
    usual = {by_murmur2(key, count), by_crc32(key, count)}
    other = next(each for each in range(count) if each not in usual)
    with testing.broker(settings={"num.partitions": count}) as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("elsewhere", SECRET, key, partition=other)
        for value in (SECRET, None):
            producer.produce("deleted", value, key, partition=0)
        producer.produce("nobody", SECRET, b"bob", partition=0)
        assert producer.flush(30) == 0
        told = forget(capsys, broker.bootstrap, "alice")
        assert told["tombstones"] == [f"elsewhere-{other}"]
        assert sorted(told["skipped"]) == ["deleted", "elsewhere"]
        told = forget(capsys, broker.bootstrap, "alice")
        assert sorted(told["skipped"]) == ["deleted", "elsewhere"]
