"""Event classes in a registry: registered when an application starts, and held to their versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from jsonschema import Draft202012Validator, ValidationError
from pydantic import BaseModel

from headwater.events import Aggregate, Application, upcaster
from headwater.events.errors import BadDefinition
from headwater.events.models import schema_text
from headwater.schemas.client import RegistryClient
from tests.schemas.conftest import serving


@dataclass(frozen=True)
class Deposit:
    amount: int


def first() -> type:
    @dataclass(frozen=True)
    class Deposited:
        amount: int

    return Deposited


def with_note() -> type:
    """A field that comes with a default."""

    @dataclass(frozen=True)
    class Deposited:
        amount: int
        note: str | None = None

    return Deposited


def with_currency() -> type:
    """A field that comes without one."""

    @dataclass(frozen=True)
    class Deposited:
        amount: int
        currency: str

    return Deposited


@upcaster("Deposited", 1)
def in_euros(data: dict[str, Any]) -> dict[str, Any]:
    return {"amount": data["amount"], "currency": "EUR"}


def accounts(name: str, event: type, *upcasters: Any) -> Aggregate[int]:
    def decide(state: int, command: Deposit) -> Any:
        more = {"currency": "CHF"} if "currency" in event.__annotations__ else {}
        return event(command.amount, **more)

    return Aggregate(
        name, 0, decide, lambda state, e: state + e.amount, [Deposit], [event], upcasters
    )


@pytest.fixture(scope="module")
def registry_url(bootstrap: str) -> Iterator[str]:
    with serving(bootstrap) as url:
        yield url


@pytest.fixture
def registry(registry_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryClient]:
    monkeypatch.setenv("HEADWATER_REGISTRY", registry_url)
    with RegistryClient(registry_url) as client:
        yield client


async def deposit(aggregate: Aggregate[int], bootstrap: str) -> int:
    async with Application(aggregate, bootstrap, owns="all", partitions=1) as bank:
        await bank.send("alice", Deposit(10))
        return await bank.state("alice")


async def test_an_event_is_registered_when_its_application_starts(
    bootstrap: str, name: str, registry: RegistryClient
):
    assert await deposit(accounts(name, first()), bootstrap) == 10
    with SchemaRegistryClient({"url": str(registry.url)}) as client:
        schema = client.get_latest_version(f"{name}-Deposited").schema
    assert schema.schema_type == "JSON"
    (event,) = json.loads(schema.schema_str)["$defs"].values()
    assert event["properties"] == {"amount": {"type": "integer"}}
    assert await deposit(accounts(name, first()), bootstrap) == 20
    assert registry.versions(f"{name}-Deposited") == [1]


async def test_a_field_with_a_default_may_come_within_a_version(
    bootstrap: str, name: str, registry: RegistryClient
):
    await deposit(accounts(name, first()), bootstrap)
    assert await deposit(accounts(name, with_note()), bootstrap) == 20
    assert registry.versions(f"{name}-Deposited") == [1, 2]


async def test_a_class_that_cannot_read_the_log_needs_an_upcaster_which_makes_it_the_next_version(
    bootstrap: str, name: str, registry: RegistryClient
):
    await deposit(accounts(name, first()), bootstrap)
    with pytest.raises(BadDefinition, match="cannot read what was written as Deposited") as refused:
        await deposit(accounts(name, with_currency()), bootstrap)
    assert "currency" in str(refused.value)
    assert "@upcaster('Deposited', 1)" in (refused.value.hint or "")
    assert await deposit(accounts(name, with_currency(), in_euros), bootstrap) == 20
    assert registry.versions(f"{name}-Deposited.v2") == [1]
    with pytest.raises(BadDefinition, match=r"Deposited\.v2 was written, and this program knows"):
        await deposit(accounts(name, first()), bootstrap)


async def test_without_a_registry_nothing_is_asked(
    bootstrap: str, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("HEADWATER_REGISTRY", raising=False)
    assert await deposit(accounts(name, first()), bootstrap) == 10


@pytest.mark.parametrize("level", ["NONE", "FORWARD", "FORWARD_TRANSITIVE"])
async def test_a_class_has_to_read_the_log_whatever_level_the_registry_has(
    bootstrap: str, name: str, registry: RegistryClient, level: str
):
    await deposit(accounts(name, first()), bootstrap)
    registry.set_level(level, f"{name}-Deposited")
    with pytest.raises(BadDefinition, match="cannot read what was written as Deposited") as refused:
        await deposit(accounts(name, with_currency()), bootstrap)
    assert "@upcaster('Deposited', 1)" in (refused.value.hint or "")
    assert registry.versions(f"{name}-Deposited") == [1]
    if level != "NONE":  # a reader of before would not take the field
        with pytest.raises(BadDefinition, match="the registry does not take the class") as refused:
            await deposit(accounts(name, with_note()), bootstrap)
        assert "headwater schemas compat BACKWARD" in (refused.value.hint or "")


async def test_an_event_with_models_in_models_is_registered(
    bootstrap: str, name: str, registry: RegistryClient
):
    @dataclass(frozen=True)
    class Deposited:
        amount: int
        at: Branch | None = None
        others: tuple[Place, ...] = ()

    await deposit(accounts(name, Deposited), bootstrap)
    schema = json.loads(registry.version(f"{name}-Deposited").schema.text)
    value = {
        "amount": 1,
        "at": {"place": {"town": "Basel"}, "under": [{"place": {"town": "Bern"}}]},
        "others": [{"town": "Chur", "code": 7000}],
    }
    Draft202012Validator(schema).validate(value)
    value["at"]["under"][0]["place"]["town"] = 7
    with pytest.raises(ValidationError):
        Draft202012Validator(schema).validate(value)


class Place(BaseModel):
    town: str
    code: int | None = None


class Branch(BaseModel):
    place: Place
    under: list[Branch] = []


class Moved(msgspec.Struct):
    to: Place
    tags: list[str] = []


def test_a_schema_is_closed_at_every_depth_and_knows_models():
    schema = json.loads(schema_text(Moved) or "")
    objects = [each for each in _within(schema) if "properties" in each]
    assert len(objects) == 2
    assert all(each["additionalProperties"] is False for each in objects)
    assert schema_text(object) is None


def _within(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
    for each in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(each, dict | list):
            yield from _within(each)
