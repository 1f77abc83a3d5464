"""An answer that is too large for the replies must not keep an owner from answering everybody else."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headwater import testing
from headwater.events import Aggregate, Application, Refused, answers, inbox
from headwater.events.errors import Busy, EventsError
from tests.events.test_forgetting import Note, Noted, Notes
from tests.events.test_saga import until


def decide(_: Notes, command: Note) -> Any:
    return Refused("ü" * 300_000) if command.text == "large" else Noted(command.text)


def apply(notes: Notes, event: Noted) -> Notes:
    return Notes((*notes.texts, event.text))


async def all_done(owner: Application[Notes]) -> bool:
    return owner._inbox.waiting == 0


NOTES = Aggregate("notes", Notes(), decide, apply, [Note], [Noted])


async def test_a_reason_that_is_too_large_for_a_reply_stops_nobody_else(tmp_path: Path):
    with testing.broker(tmp_path) as broker:
        async with (
            Application(NOTES, broker.bootstrap, owns="group", partitions=1, timeout_s=60) as owner,
            Application(NOTES, broker.bootstrap, owns="none", timeout_s=60) as client,
        ):
            await client.send("bob", Note("first"))
            asks = [
                client.send("alice", Note("large"), command_id="large"),
                *(owner.send("bob", Note(str(n)), command_id=str(n)) for n in range(20)),
                *(client.send("bob", Note(str(n)), command_id=f"c{n}") for n in range(20)),
            ]
            found = await asyncio.gather(*asks, return_exceptions=True)
            unknown = [str(e) for e in found[1:] if isinstance(e, EventsError)]
            assert unknown == []
            assert found[0] == Refused("ü" * 300_000)
            await until(lambda: all_done(owner))


async def test_a_snapshot_after_it_lacks_nothing(tmp_path: Path):
    with testing.broker(tmp_path) as broker:
        options: dict[str, Any] = {"owns": "all", "partitions": 1, "snapshot_every": 1}
        async with (
            Application(
                NOTES, broker.bootstrap, owns="group", partitions=1, snapshot_every=1, timeout_s=60
            ) as owner,
            Application(NOTES, broker.bootstrap, owns="none", timeout_s=60) as client,
        ):
            await client.send("bob", Note("first"))
            names = [f"carol{n}" for n in range(30)]
            asks = [
                *(client.send(name, Note("x"), command_id=name) for name in names[:15]),
                client.send("alice", Note("large"), command_id="large"),
                *(client.send(name, Note("x"), command_id=name) for name in names[15:]),
            ]
            await asyncio.gather(*asks, return_exceptions=True)
            await owner.send("bob", Note("later"))
            await owner.send("bob", Note("latest"))
            live = {name: (await owner.held(name)).version for name in names}
        async with Application(NOTES, broker.bootstrap, **options) as again:
            assert {name: (await again.held(name)).version for name in names} == live


@pytest.mark.parametrize("partition", [99, -7, 1 << 40])
async def test_a_command_that_wants_its_reply_where_there_is_no_partition_is_done_all_the_same(
    tmp_path: Path, partition: int
):
    with testing.broker(tmp_path) as broker:
        async with (
            Application(NOTES, broker.bootstrap, owns="group", partitions=1, timeout_s=60) as owner,
            Application(NOTES, broker.bootstrap, owns="none", timeout_s=60) as client,
        ):
            await client.send("bob", Note("first"))
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            said = {"type": "Note", "id": "alice", "command": "c", "sent_ms": 0}
            said |= {"data": {"text": "x"}, "reply": {"partition": partition, "to": "nobody"}}
            producer.produce("notes.commands", json.dumps(said), "alice", 0)
            producer.flush()
            await client.send("bob", Note("second"))
            await until(lambda: all_done(owner))


async def test_what_is_too_large_for_a_dead_letter_stops_nobody_either(tmp_path: Path):
    with testing.broker(tmp_path) as broker:
        async with (
            Application(NOTES, broker.bootstrap, owns="group", partitions=1, timeout_s=60) as owner,
            Application(NOTES, broker.bootstrap, owns="none", timeout_s=60) as client,
        ):
            await client.send("bob", Note("first"))
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            producer.produce("notes.commands", b"x" * 999_900, "alice", 0)
            producer.flush()
            await client.send("bob", Note("second"))
            await until(lambda: all_done(owner))


@pytest.mark.parametrize("reason", ["\0" * 170_000, "ü" * 500_000, "half of a pair: \ud800"])
def test_a_reply_fits_into_a_record_whatever_its_reason(reason: str):
    value = inbox.encode("alice", "c", "x", Refused(reason))
    assert len(value) <= inbox.BYTES_MAX
    said = answers.from_reply(json.loads(value))
    assert isinstance(said, Refused) and said.reason
    assert reason.startswith(said.reason)
    assert json.loads(inbox.encode("alice", "c", "x", Busy(reason)))["error"] == "Busy"
