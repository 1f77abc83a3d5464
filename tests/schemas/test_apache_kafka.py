"""Beside Apache Kafka: claims, ids and the topic are the same there."""

from __future__ import annotations

import json
from contextlib import ExitStack

import httpx
import pytest

from headwater.client.log import Log
from headwater.schemas import changes
from headwater.schemas.changes import Registration
from headwater.schemas.model import Schema
from headwater.schemas.store import Store
from headwater.testing import apache_kafka as testing
from tests.compat.missing import skip_or_fail
from tests.schemas.conftest import serving


@pytest.fixture(scope="module")
def apache_kafka():
    with ExitStack() as stack:
        try:
            server = stack.enter_context(testing.apache_kafka(jvm=testing.QUICK_JVM))
        except testing.MissingServer as missing:
            skip_or_fail(f"{missing}: Apache Kafka cannot run here")
        yield server.bootstrap


def fixed(number: int) -> str:
    return json.dumps({"type": "fixed", "name": "f", "size": number})


def put(store: Store, subject: str, number: int) -> int:
    asked = Registration(subject, Schema(fixed(number)))
    return store.change(lambda state: changes.register(state, asked)).id


def test_two_registries_of_one_kafka_give_every_id_once(apache_kafka):
    with Log(apache_kafka) as one, Log(apache_kafka) as other, ExitStack() as stack:
        first, second = (stack.enter_context(Store(each)) for each in (one, other))
        ids = [put(store, f"s{n}", n + 1) for n in range(4) for store in (first, second)]
        assert ids == [1, 1, 2, 2, 3, 3, 4, 4]
        assert [put(store, f"t{n}", 100 + n) for n, store in enumerate((first, second, first))] == [
            5,
            6,
            7,
        ]
    with serving(apache_kafka) as url:
        found = httpx.get(f"{url}/schemas/ids/7", timeout=60).json()["schema"]
        assert json.loads(found)["size"] == 102
        made = httpx.post(f"{url}/subjects/new/versions", json={"schema": '"string"'}, timeout=60)
        assert made.json()["id"] == 8
