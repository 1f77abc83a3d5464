"""Records of `_schemas` that no registry has written: they are passed over, and everything else goes on."""

from __future__ import annotations

import json

import pytest

from headwater.schemas import changes, records
from headwater.schemas.changes import Registration
from headwater.schemas.errors import RegistryError
from headwater.schemas.follower import applied
from headwater.schemas.model import Schema
from headwater.schemas.state import State


def key(kind: str, subject: object = None, **more: object) -> dict[str, object]:
    return {"keytype": kind, "subject": subject, **more, "magic": 0}


SCHEMA = {"id": 5, "schema": '"string"'}
FOREIGN = [
    (key("NOOP"), {"gone": {"context": ".", "id": True, "guid": "x"}}),
    (key("NOOP"), {"gone": {"context": ".", "id": 1.5, "guid": "x"}}),
    (key("NOOP"), {"ids": {".": True}}),
    (key("SCHEMA", "s", version=True), SCHEMA),
    (key("SCHEMA", "s", version=1), {**SCHEMA, "id": True}),
    (key("SCHEMA", "s", version=1), {**SCHEMA, "schema": 7}),
    (key("SCHEMA", "s", version=1), {**SCHEMA, "id": -7}),
    (key("SCHEMA", "s", version=1), {**SCHEMA, "id": 2**31}),
    (key("SCHEMA", "s", version=-5), SCHEMA),
    (key("SCHEMA", "s", version=2**31), SCHEMA),
    (key("DELETE_SUBJECT", "s"), {"version": "x"}),
    (key("MODE", "s"), []),
    ([], {}),
]


@pytest.mark.parametrize(("named", "value"), FOREIGN)
def test_a_foreign_record_is_passed_over(named: object, value: object):
    state = State()
    applied(state, json.dumps(named).encode(), json.dumps(value).encode())
    assert state.subjects(deleted=True) == []
    decision = changes.register(state, Registration("after", Schema('"int"')))
    assert (decision.answer.id, decision.answer.version) == (1, 1)


def test_what_cannot_be_applied_is_told_and_passed_over(monkeypatch: pytest.MonkeyPatch):
    state = State()

    def broken(_: object) -> None:
        raise ValueError("our own mistake")

    monkeypatch.setattr(state, "apply", broken)
    assert not applied(state, json.dumps(key("NOOP")).encode(), b"{}")


def test_a_record_that_is_nested_as_deep_as_python_goes_is_passed_over():
    named = json.dumps(key("SCHEMA", "s", version=1)).encode()
    for depth in range(900, 1100):
        deep = json.dumps({**SCHEMA, "metadata": 0})[:-2] + "[" * depth + "]" * depth + "}"
        applied(State(), named, deep.encode())


@pytest.mark.parametrize("level", ["SIDEWAYS", None, 7, {"a": [1]}])
def test_a_level_that_nobody_knows_allows_no_more_than_the_default(level: object):
    state = State()
    config = json.dumps({"subject": "s", "compatibilityLevel": level}).encode()
    for record in (
        records.Record(json.dumps(key("CONFIG", "s")).encode(), config),
        *changes.register(state, Registration("s", Schema('"int"'))).records,
    ):
        fact = records.decoded(record.key, record.value)
        assert fact is not None
        state.apply(fact)
    with pytest.raises(RegistryError, match="incompatible"):
        changes.register(state, Registration("s", Schema('"boolean"')))
