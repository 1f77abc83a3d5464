"""POST /v3/clusters/{id}/topics/{topic}/records: in the log as it was said, and answered record by record."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

from headwater.client.log import Log
from headwater.client.publisher import Stored
from headwater.client.records import Record, record_of
from headwater.edges.rest import formats
from headwater.edges.rest.records import RECORD_BYTES, together
from tests.edges.http import reading
from tests.edges.rest.conftest import Clients


def records(log: Log, topic: str) -> list[Record]:
    return [record_of(each) for each in reading.records(log, topic)]


def test_one_record_with_everything(
    client: Clients, cluster: str, log: Log, topic: Callable[..., str]
):
    name = topic(3)
    body = {
        "partition_id": 2,
        "timestamp": "2026-11-17T06:00:00Z",
        "headers": [{"name": "trace", "value": "YTE="}],
        "key": {"type": "STRING", "data": "17"},
        "value": {"type": "JSON", "data": {"total": 12}},
    }
    said = client("bob").post(f"{cluster}/topics/{name}/records", json=body)
    assert said.status_code == 200
    found = said.json()
    assert {each: found[each] for each in ("error_code", "partition_id", "offset", "key")} == {
        "error_code": 200,
        "partition_id": 2,
        "offset": 0,
        "key": {"type": "STRING", "size": 2},
    }
    assert found["timestamp"] == "2026-11-17T06:00:00.000Z"
    (stored,) = records(log, name)
    assert (stored.partition, stored.timestamp_ms) == (2, 1_794_895_200_000)
    assert (stored.key, json.loads(stored.value or b"")) == (b"17", {"total": 12})
    assert stored.headers == (("trace", b"a1"),)


def test_many_in_a_row_are_answered_one_by_one(
    client: Clients, cluster: str, log: Log, topic: Callable[..., str]
):
    name = topic(cleanup_policy="compact")
    key = '"key": {"type": "STRING", "data": "k"}'
    body = "".join(
        (
            f'{{{key}, "value": {{"type": "STRING", "data": "a"}}}}',
            '{"value": {"type": "STRING", "data": "no key"}}\n',
            f'{{{key}, "partition_id": 7}}',
            f'{{{key}, "value": {{"type": "AVRO", "data": 1}}}}',
            f"{{{key}}}",
        )
    )
    said = client("bob").post(f"{cluster}/topics/{name}/records", content=body)
    answers = [json.loads(each) for each in said.text.split("\r\n")]
    assert said.status_code == 200
    assert [each["error_code"] for each in answers] == [200, 42206, 40402, 42206, 200]
    assert [each["offset"] for each in answers if "offset" in each] == [0, 1]
    assert [each.value for each in records(log, name)] == [b"a", None]


def test_an_error_of_a_single_record_is_the_status(
    client: Clients, cluster: str, topic: Callable[..., str]
):
    path = f"{cluster}/topics/{topic()}/records"
    bob = client("bob")
    assert bob.post(path, json={"partition_id": 9}).status_code == 404
    assert bob.post(path, json={"value": {"type": "BINARY", "data": "%"}}).status_code == 422
    assert bob.post(path, content="{").status_code == 400
    assert bob.post(path, content="").json()["message"].startswith("the body is empty")
    assert client("eve").post(path, json={}).status_code == 403
    missing = bob.post(f"{cluster}/topics/tnowhere/records", json={})
    assert (missing.status_code, missing.json()["error_code"]) == (404, 40401)


def test_of_many_small_records_no_more_is_in_memory_than_is_counted():
    count = 5_000
    tracemalloc.start()
    found = list(formats.read(b"{}" * count, 1_794_895_200_000))
    stored = [Stored(0, 10_000 + n) for n in range(count)]
    said = together("c" * 22, "orders", found, stored)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1.25 * count * RECORD_BYTES, f"{most / count:.0f} bytes a record"
    assert [json.loads(each)["offset"] for each in said.split(b"\r\n")][-1] == 10_000 + count - 1
