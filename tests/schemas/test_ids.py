"""Ids of schemas: none is given twice, and no import leaves the others without one."""

from __future__ import annotations

import json

import httpx
import pytest

from headwater.schemas import changes, deletion, migration, records, subjects
from headwater.schemas.changes import Decision, Registration
from headwater.schemas.errors import RegistryError
from headwater.schemas.ids import ID_MAX, IMPORTED_MAX
from headwater.schemas.model import Schema
from headwater.schemas.records import Version
from headwater.schemas.state import State


def fixed(size: int) -> Schema:
    return Schema(json.dumps({"type": "fixed", "name": "f", "size": size}))


class Registry:
    """A state, and the topic that it is read from."""

    def __init__(self) -> None:
        self.state = State()
        self.topic: list[records.Record] = []

    def write(self, decision: Decision[object]) -> None:
        for record in decision.records:
            self.topic.append(record)
            fact = records.decoded(*record)
            assert fact is not None
            self.state.apply(fact)

    def register(self, subject: str, schema: Schema) -> int:
        decision = changes.register(self.state, Registration(subject, schema))
        self.write(decision)
        return decision.answer.id

    def imported(self, subject: str, schema: Schema, identity: int) -> Version:
        self.write(changes.set_mode(self.state, subject, "IMPORT", force=True))
        decision = changes.register(self.state, Registration(subject, schema, id=identity))
        self.write(decision)
        self.write(changes.set_mode(self.state, subject, "READWRITE", force=True))
        return decision.answer

    def gone(self, subject: str) -> None:
        for permanent in (False, True):
            self.write(deletion.delete_subject(self.state, subject, permanent=permanent))

    def begun_anew(self) -> State:
        """From what compaction leaves of the topic, as a claim writes it first."""
        given = [records.ids_given(*each) for each in self.state.given_ids().items()]
        last = {each.key: each for each in [*self.topic, records.noop(), *given]}
        state = State()
        for record in last.values():
            fact = records.decoded(*record)
            assert fact is not None
            state.apply(fact)
        return state


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.mark.parametrize("far", [IMPORTED_MAX, IMPORTED_MAX + 1, ID_MAX - 1, ID_MAX])
def test_an_imported_id_however_high_leaves_ids_for_the_others(registry: Registry, far: int):
    registry.register("a", fixed(1))
    registry.imported("shop.x", fixed(2), far)
    given = [registry.register(f"b{n}", fixed(3 + n)) for n in range(5)]
    assert given == sorted(set(given)) and far not in given
    assert max(given) <= ID_MAX
    again = registry.begun_anew()
    assert again.next_id(subjects.DEFAULT) == registry.state.next_id(subjects.DEFAULT)


def test_an_import_of_every_bound_at_once_leaves_half_of_all_ids(registry: Registry):
    for number, far in enumerate((IMPORTED_MAX, ID_MAX, IMPORTED_MAX + 2, IMPORTED_MAX + 3)):
        registry.imported(f"shop.{number}", fixed(100 + number), far)
    given = [registry.register(f"b{n}", fixed(n)) for n in range(3)]
    assert given == [IMPORTED_MAX + 1, IMPORTED_MAX + 4, IMPORTED_MAX + 5]
    assert registry.begun_anew().next_id(subjects.DEFAULT) == IMPORTED_MAX + 6


def test_ids_in_the_upper_half_are_not_given_again_after_they_are_gone(registry: Registry):
    registry.imported("shop.x", fixed(1), IMPORTED_MAX)
    first = registry.register("a", fixed(2))
    registry.gone("a")
    assert registry.register("b", fixed(3)) == first + 1
    registry.gone("b")
    again = registry.begun_anew()
    assert again.next_id(subjects.DEFAULT) == first + 2


def test_an_import_still_moves_the_count_within_its_half(registry: Registry):
    registry.imported("shop.x", fixed(1), 100_001)
    assert registry.register("a", fixed(2)) == 100_002


def test_a_schema_under_two_ids_keeps_the_one_when_the_other_is_gone(registry: Registry):
    low, high = (registry.imported(f"s{n}", fixed(1), n) for n in (7, 9))
    assert registry.state.id_of(subjects.DEFAULT, low.schema) == 7
    assert {each.id for each in registry.state.by_guid(low.schema.guid)} == {7, 9}
    registry.gone("s7")
    assert registry.state.id_of(subjects.DEFAULT, low.schema) == 9
    assert registry.state.by_guid(high.schema.guid) == [high]
    registry.gone("s9")
    assert registry.state.id_of(subjects.DEFAULT, low.schema) is None
    assert registry.state.by_guid(high.schema.guid) == []


def test_a_guid_is_found_in_another_context_when_it_is_gone_here(registry: Registry):
    for subject in ("a", ":.team:a"):
        registry.register(subject, fixed(1))
    (guid,) = {each.schema.guid for each in registry.state.versions("a")}
    registry.gone("a")
    assert [each.subject for each in registry.state.by_guid(guid)] == [":.team:a"]
    assert registry.state.by_guid("no guid") == []


def test_an_id_that_is_gone_for_good_comes_back_as_what_it_was_only(registry: Registry):
    """Data in topics name it still, and consumers keep what it was."""
    identity = registry.register("a", fixed(1))
    registry.gone("a")
    for state in (registry.state, registry.begun_anew()):
        registry.state = state
        with pytest.raises(RegistryError, match="not permitted"):
            registry.imported("b", fixed(2), identity)
        registry.write(changes.set_mode(registry.state, "b", "READWRITE", force=True))
    assert registry.imported("b", fixed(1), identity).id == identity


def test_an_id_that_another_subject_has_still_is_not_gone(registry: Registry):
    identity = registry.register("a", fixed(1))
    assert registry.register("b", fixed(1)) == identity
    registry.gone("a")
    assert registry.state.was(subjects.DEFAULT, identity) is None
    registry.gone("b")
    assert registry.state.was(subjects.DEFAULT, identity) is not None


def test_a_move_of_a_registry_takes_along_which_ids_are_gone(registry: Registry):
    identity = registry.register("a", fixed(1))
    registry.gone("a")
    target = Registry()
    while (decision := migration.missing(registry.state, target.state)).records:
        target.write(decision)
    with pytest.raises(RegistryError, match="not permitted"):
        target.imported("b", fixed(2), identity)
    other = Registry()
    other.imported("c", fixed(3), identity)
    with pytest.raises(RegistryError, match="permanently deleted"):
        migration.missing(other.state, target.state)


def test_what_was_given_in_very_many_contexts_is_told_in_small_records(registry: Registry):
    for number in range(50):
        registry.register(f":.{'c' * 900}{number}:a", fixed(number))
        registry.gone(f":.{'c' * 900}{number}:a")
    assert max(len(each.value or b"") for each in registry.topic) < 2048
    assert registry.state.given_ids() == {}
    again = registry.begun_anew()
    assert again.highest_ids() == registry.state.highest_ids() and len(again.highest_ids()) == 50


def test_what_an_earlier_record_said_of_all_contexts_at_once_is_kept(registry: Registry):
    told = records.Record(b'{"keytype":"NOOP","magic":0}', b'{"ids":{".":7,".team":9}}')
    registry.write(Decision(None, [told]))
    assert registry.state.given_ids() == {".": 7, ".team": 9}
    assert registry.begun_anew().next_id(".team") == 10


def test_records_go_in_batches_that_a_broker_takes():
    made = [records.schema_gone("s" * 900, n) for n in range(2_000)]
    parts = list(records.batches(made))
    assert [each for part in parts for each in part] == made
    assert max(sum(len(each.key) for each in part) for part in parts) <= records.BATCH_BYTES
    assert list(records.batches([])) == []


def test_who_imports_the_highest_id_of_all_stops_no_registration(registry_url: str):
    with httpx.Client(base_url=registry_url, timeout=60) as http:
        body = {"mode": "IMPORT"}
        assert http.put("/mode/far-ahead", json=body).status_code == 200
        more = {"schema": fixed(4711).text, "id": ID_MAX, "version": 1}
        assert http.post("/subjects/far-ahead/versions", json=more).json()["id"] == ID_MAX
        made = http.post("/subjects/after-it/versions", json={"schema": fixed(4712).text})
        assert made.status_code == 200 and made.json()["id"] < ID_MAX, made.text


@pytest.fixture
def registry_url(kafka: str):
    from tests.schemas.conftest import serving

    with serving(kafka, "--topic", "_schemas_far") as url:
        yield url


def test_a_name_is_one_however_often_the_default_context_is_said():
    told = Registry()
    told.register(":.team:orders-value", Schema('"string"'))
    odd = subjects.qualified(subjects.DEFAULT, ":.::.::.team:orders-value")
    assert odd == subjects.normalized(odd) == ":.team:orders-value"
    assert told.register(":.::.::.team:orders-value", Schema('"bytes"')) == 2
    assert [each.id for each in told.state.versions(odd)] == [1, 2]


def test_an_id_of_what_is_gone_is_passed_over():
    told = Registry()
    told.imported("low", fixed(1), IMPORTED_MAX)
    told.imported("gone", fixed(2), IMPORTED_MAX + 2)
    told.gone("gone")
    found = [told.register(f"s{size}", fixed(size)) for size in (3, 4)]
    assert found == [IMPORTED_MAX + 1, IMPORTED_MAX + 3]
    assert told.begun_anew().next_id(subjects.DEFAULT) == IMPORTED_MAX + 4
