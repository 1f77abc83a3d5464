"""Schemas by whoever reads and writes values: from the registry's topic, also after it was made anew."""

from __future__ import annotations

from types import SimpleNamespace

from headwater.client import topics
from headwater.client.log import Log
from headwater.schemas import changes, records
from headwater.schemas import lookup as module
from headwater.schemas.changes import Registration
from headwater.schemas.errors import RegistryError
from headwater.schemas.lookup import RegistryLookup, TopicLookup
from headwater.schemas.model import Schema
from headwater.schemas.store import Store
from headwater.schemas.values.codecs import Codecs
from headwater.testing import broker
from tests.compat.waiting import until


def register(log: Log, subject: str, *texts: str) -> int:
    """The id of the last."""
    with Store(log) as store:
        for text in texts:
            asked = Registration(subject, Schema(text))
            last = store.change(lambda state, asked=asked: changes.register(state, asked)).id
    return last


def latest(lookup: TopicLookup, subject: str) -> str | None:
    found = lookup.latest(subject)
    return None if found is None else found.schema.text


def test_a_topic_that_was_made_anew_is_read_from_its_beginning():
    with broker() as kafka, Log(kafka.bootstrap) as log, Store(log) as other:
        lookup = TopicLookup(log)
        codecs = Codecs(lookup)
        assert register(log, "a-value", '"int"') == 1
        until(lambda: latest(lookup, "a-value") == '"int"', "the schema")
        assert codecs.encode_text("a-value", b"7") == b"\0\0\0\0\1\x0e"
        topics.delete(log.admin, records.TOPIC)
        until(lambda: records.TOPIC not in log.admin.list_topics(timeout=60).topics, "it to go")
        # As many records as there were, and more: no offset tells that it is another.
        more = [f'{{"type":"fixed","name":"f","size":{n}}}' for n in range(1, 6)]
        assert register(log, "b-value", *(more[:1])) == 1
        for n, text in enumerate(more[1:], 2):
            register(log, f"b{n}-value", text)
        until(lambda: latest(lookup, "b-value") == more[0], "the new schema")
        assert latest(lookup, "a-value") is None
        wanted = ["b-value", *(f"b{n}-value" for n in range(2, 6))]
        until(lambda: other.state.subjects() == wanted, "another registry to begin anew")
        assert codecs.encode_text("b-value", b'"AA=="') == b"\0\0\0\0\1\0"


def test_schemas_that_come_one_after_the_other_are_found_at_once():
    """As when several tables of a capture change: what is read meanwhile is shown but once."""
    with broker() as kafka, Log(kafka.bootstrap) as log, Store(log) as store:
        lookup = TopicLookup(log)
        for n in range(1, 4):
            asked = Registration(f"t{n}-value", Schema(f'{{"type":"fixed","name":"f","size":{n}}}'))
            made = store.change(lambda state, asked=asked: changes.register(state, asked))
            found = lookup.by_id(made.id)
            assert found is not None and found.schema == made.schema


def test_for_ids_that_nobody_knows_the_topic_is_read_a_few_times_only(monkeypatch):
    with broker() as kafka, Log(kafka.bootstrap) as log, Store(log):
        lookup, looks = TopicLookup(log), []
        monkeypatch.setattr(module, "AGAIN_S", 1e9)
        monkeypatch.setattr(lookup, "_apply", lambda: looks.append(1))
        assert [lookup.by_id(7) for _ in range(3)] == [None] * 3
        assert len(looks) == 1
        assert [lookup.by_id(n) for n in range(100, 1000)] == [None] * 900
        assert len(looks) == module.LOOKS_MAX


def test_an_id_that_was_asked_for_before_it_was_registered_is_found_a_moment_later(monkeypatch):
    """Whatever else nobody knows is asked for meanwhile, and whatever the clock says."""
    now = [1000.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with broker() as kafka, Log(kafka.bootstrap) as log:
        lookup = TopicLookup(log)
        assert [lookup.by_id(n) for n in (1, *range(2, 100))] == [None] * 99
        assert register(log, "a-value", '"int"') == 1
        now[0] += 0.2
        lookup.by_id(77)
        found = lookup.by_id(1)
        assert found is not None and found.schema.text == '"int"'


class Registry:
    """Answers as `RegistryClient` does, and counts."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.there: set[int] = set()

    def by_id(self, identity: int) -> Schema:
        self.asked.append(identity)
        if identity not in self.there:
            raise RegistryError(40403, "Schema not found")
        return Schema('"int"')


def test_a_registry_is_asked_again_for_an_id_that_it_did_not_have_and_not_for_each_value(
    monkeypatch,
):
    now = [1000.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    registry = Registry()
    lookup = RegistryLookup(registry)
    assert [lookup.by_id(7) for _ in range(50)] == [None] * 50
    assert registry.asked == [7]
    registry.there.add(7)
    now[0] += 0.2
    assert [found.id for found in map(lookup.by_id, [7] * 3) if found] == [7] * 3
    assert registry.asked == [7, 7]
