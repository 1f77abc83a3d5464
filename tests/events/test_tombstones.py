"""Owners obey tombstones: whatever they hold, and however busy they are, they bring nothing back."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headwater import testing
from headwater.cli.app import run as headwater
from headwater.client.cluster import Cluster
from headwater.client.connection import Disconnected
from headwater.events import Aggregate, Application, Refused, acknowledgement, partition_reader
from headwater.events import owner as owners
from headwater.events.answers import Accepted
from headwater.events.errors import DecideFailed
from tests.events.test_forgetting import SECRET, Note, Noted, Notes, topics_with
from tests.events.test_personal import forget
from tests.events.test_saga import until


def decide(notes: Notes, command: Note) -> Any:
    return Refused(f"beside {notes.texts}") if command.text == "never" else Noted(command.text)


def apply(notes: Notes, event: Noted) -> Notes:
    return Notes((*notes.texts, event.text))


def strict(notes: Notes, event: Noted) -> Notes:
    if event.text != "open" and not notes.texts:
        raise ValueError("an event of notes that were not opened")
    return apply(notes, event)


NOTES = Aggregate("notes", Notes(), decide, apply, [Note], [Noted])
STRICT = Aggregate("strict", Notes(), decide, strict, [Note], [Noted])


def owner(aggregate: Aggregate[Notes], bootstrap: str) -> Application[Notes]:
    return Application(
        aggregate, bootstrap, owns="all", partitions=1, snapshot_every=1, timeout_s=60
    )


async def obeyed(bootstrap: str, topic: str) -> None:
    """Until the owner says that it has seen all that is there now."""

    def look() -> bool:
        with closing(Cluster({"bootstrap.servers": bootstrap})) as cluster:
            end = partition_reader.ends(cluster, (topic, 0))[1]
            return acknowledgement.seen(cluster, (f"{topic}.answers", 0), 0)[0] >= end

    async def looked() -> bool:
        return await asyncio.to_thread(look)

    await until(looked)


@pytest.mark.parametrize(
    "first", [["forget", "alice"], ["excise", "notes", "--key", "alice"]], ids=["forget", "excise"]
)
async def test_what_was_done_in_part_before_is_completed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first: list[str]
):
    with testing.broker(tmp_path) as broker:
        async with owner(NOTES, broker.bootstrap) as notes:
            await notes.send("alice", Note(SECRET))
            words = [*first, "--yes", "--bootstrap", broker.bootstrap]
            assert await asyncio.to_thread(headwater, words) == 0
            capsys.readouterr()
            if first[0] == "forget":
                await obeyed(broker.bootstrap, "notes")
            said = await asyncio.to_thread(
                forget, capsys, broker.bootstrap, "alice", "--excise", "notes"
            )
            assert (said["tombstones"], said["unconfirmed"]) == (["notes-0"], [])
            assert (await notes.state("alice")).texts == ()
            await notes.send("alice", Note("hello"))
        assert topics_with(tmp_path, SECRET) == set()


async def test_an_owner_that_is_busy_refusing_forgets_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with testing.broker(tmp_path) as broker:
        async with owner(NOTES, broker.bootstrap) as notes:
            await notes.send("alice", Note(SECRET))
            over = False

            async def refused(id: str) -> None:
                while not over:
                    await notes.send(id, Note("never"))

            busy = [asyncio.create_task(refused(id)) for id in ("alice", "bob", "carl", "dora")]
            said = await asyncio.to_thread(
                forget, capsys, broker.bootstrap, "alice", "--excise", "notes"
            )
            assert said["unconfirmed"] == []
            over = True
            await asyncio.gather(*busy)
            assert (await notes.state("alice")).texts == ()
        assert topics_with(tmp_path, SECRET) == set()


async def test_what_is_left_of_one_aggregate_stops_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """An event that is decided between the excision and the tombstone, as `forget` does them."""
    with testing.broker(tmp_path) as broker:
        async with owner(STRICT, broker.bootstrap) as notes:
            await notes.send("alice", Note("open"))
            words = ["excise", "strict", "--key", "alice", "--yes", "--bootstrap", broker.bootstrap]
            assert await asyncio.to_thread(headwater, words) == 0
            assert isinstance(await notes.send("alice", Note("more")), Accepted)
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            producer.produce("strict", None, b"alice", 0)
            assert producer.flush(60) == 0
            await obeyed(broker.bootstrap, "strict")
            assert isinstance(await notes.send("bob", Note("open")), Accepted)
            with pytest.raises(DecideFailed, match="what is left of the events of alice"):
                await notes.send("alice", Note("even more"))
        async with owner(STRICT, broker.bootstrap) as notes:
            assert isinstance(await notes.send("bob", Note("more")), Accepted)
            with pytest.raises(DecideFailed, match="what is left of the events of alice"):
                await notes.state("alice")
            capsys.readouterr()
            said = await asyncio.to_thread(
                forget, capsys, broker.bootstrap, "alice", "--excise", "strict"
            )
            assert said["unconfirmed"] == []
            answer = await notes.send("alice", Note("open"))
            assert isinstance(answer, Accepted) and answer.version == 1


async def test_where_no_owner_runs_that_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headwater.cli.forget._PATIENCE_S", 0.1)
    with testing.broker() as broker:
        async with owner(NOTES, broker.bootstrap) as notes:
            await notes.send("alice", Note("hello"))
        said = await asyncio.to_thread(
            forget, capsys, broker.bootstrap, "alice", "--excise", "notes"
        )
        assert said["unconfirmed"] == ["notes-0"]
        async with owner(NOTES, broker.bootstrap) as notes:
            assert (await notes.state("alice")).texts == ()


async def test_an_owner_that_cannot_look_at_tombstones_looks_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    failures = []
    find = owners.find_buried

    def fails(*words: Any) -> Any:
        if failures:
            return find(*words)
        failures.append(1)
        raise Disconnected("cut")

    monkeypatch.setattr(owners, "find_buried", fails)
    with testing.broker(tmp_path) as broker:
        async with owner(NOTES, broker.bootstrap) as notes:
            await notes.send("alice", Note(SECRET))
            said = await asyncio.to_thread(
                forget, capsys, broker.bootstrap, "alice", "--excise", "notes"
            )
            assert failures and said["unconfirmed"] == []
            assert (await notes.state("alice")).texts == ()
            await notes.send("bob", Note("hello"))
        assert topics_with(tmp_path, SECRET) == set()


async def test_a_tombstone_under_a_key_that_is_no_text_stops_no_owner(tmp_path: Path):
    with testing.broker(tmp_path) as broker:
        async with owner(NOTES, broker.bootstrap) as notes:
            await notes.send("alice", Note("hello"))
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            producer.produce("notes", None, b"\xff\xfe")
            producer.flush()
            await obeyed(broker.bootstrap, "notes")
            assert isinstance(await notes.send("alice", Note("again")), Accepted)
            producer.produce("notes", None, b"\xff\xfe")
            producer.flush()
        async with owner(NOTES, broker.bootstrap) as notes:  # reads it behind the snapshots
            assert (await notes.state("alice")).texts == ("hello", "again")
