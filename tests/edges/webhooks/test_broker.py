"""The log goes away and comes back while deliveries are under way."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from headwater.client import groups
from headwater.client.log import Log
from headwater.errors import HeadwaterError
from headwater.project.ports import free_port
from headwater.testing import broker
from tests.edges.running import edges, until
from tests.edges.webhooks.receiver import SECRET, receiver
from tests.edges.webhooks.test_kills import Gate

RECORDS = 60


def test_deliveries_go_on_where_they_were_when_the_log_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    listen, gate = f"127.0.0.1:{free_port()}", Gate()
    gate.close(RECORDS // 2)
    with receiver(gate.answer) as got, ExitStack() as stack:
        own = {"from": "topic:orders", "to": got.url, "secret": "${HOOK_SECRET}"}
        more = {"start": "beginning", "allow_private": True, "parallel": 4, "timeout_s": 60}
        document = {"webhooks": {"shop": {**own, **more}}}
        with broker(tmp_path, listen=listen), Log(listen) as log:
            log.admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
            producer = log.new_producer()
            for number in range(RECORDS):
                producer.produce("orders", b"%d" % number, b"key-%d" % (number % 6))
            assert producer.flush(60) == 0
            stack.enter_context(edges(listen, document))
            until(lambda: gate.kept >= 4, "deliveries under way")
        gate.open()  # received while the log is away: they cannot be noted now
        until(lambda: gate.kept == 0, "their end")
        with broker(tmp_path, listen=listen), Log(listen) as log:
            until(lambda: lag(log) == 0, "the rest")
            stack.close()
        arrived: dict[str, list[int]] = {}
        for request in got.got:
            arrived.setdefault(request.key, []).append(int(request.body))
    for key, numbers in arrived.items():
        assert numbers == sorted(numbers), f"{key} came as {numbers}"
    assert {n for numbers in arrived.values() for n in numbers} == set(range(RECORDS))


def lag(log: Log) -> int | None:
    """None while nobody answers."""
    try:
        found = groups.named(log, "headwater.webhook.shop").partitions
    except HeadwaterError:
        return None
    own = [each for each in found if each.topic == "orders"]
    return sum(each.lag or 0 for each in own) if len(own) == 2 else None
