"""`headwater forget` goes round until owners write nothing more, and names what it is not sure of."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from headwater import testing
from headwater.cli.app import run as headwater
from headwater.events import erasure
from tests.events.test_forgetting import Note
from tests.events.test_personal import forget
from tests.events.test_tombstones import NOTES, STRICT, owner


async def test_owners_are_waited_for_though_their_answers_are_named_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headwater.cli.forget._PATIENCE_S", 0.1)
    with testing.broker() as broker:
        async with owner(NOTES, broker.bootstrap) as notes:
            await notes.send("alice", Note("hello"))
        words = ("--excise", "notes", "--excise", "notes.answers")
        said = await asyncio.to_thread(forget, capsys, broker.bootstrap, "alice", *words)
        assert said["unconfirmed"] == said["tombstones"] == ["notes-0"]
        assert "notes.answers" in said["excised"]


async def test_an_owner_that_was_not_heard_of_is_named_also_after_another_round(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    holds, rounds = erasure.holds_before, list[Any]()

    def once_more(cluster: Any, place: Any, key: bytes, end: int) -> bool:
        if place[0] != "notes":
            return holds(cluster, place, key, end)
        rounds.append(place)
        return len(rounds) == 1

    with testing.broker() as broker:
        async with owner(STRICT, broker.bootstrap) as strict:
            await strict.send("alice", Note("open"))
        async with owner(NOTES, broker.bootstrap) as notes:
            await notes.send("alice", Note("hello"))
            monkeypatch.setattr(erasure, "holds_before", once_more)
            words = ("--excise", "notes", "--excise", "strict")
            said = await asyncio.to_thread(forget, capsys, broker.bootstrap, "alice", *words)
        assert len(rounds) == 2 and said["unconfirmed"] == ["strict-0"]


async def test_what_is_written_again_each_time_is_named_as_incomplete(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headwater.cli.forget._ROUNDS_MAX", 2)
    with testing.broker() as broker:
        async with owner(NOTES, broker.bootstrap) as notes:
            await notes.send("alice", Note("hello"))
            monkeypatch.setattr(erasure, "holds_before", lambda *_: True)
            words = ["forget", "alice", "--yes", "--json", "--bootstrap", broker.bootstrap]
            code = await asyncio.to_thread(headwater, [*words, "--excise", "notes"])
        assert code == 1
        assert "notes" in json.loads(capsys.readouterr().out)["incomplete"]
