"""A broker that is killed and comes back: who follows stays, and misses nothing."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import NewTopic

from headwater.client.log import Log
from headwater.project.broker_process import BrokerProcess
from tests.edges.feeds.clients import following, put, wait_for
from tests.edges.running import edges


def test_a_client_stays_while_the_broker_is_away_and_misses_nothing(tmp_path: Path):
    with BrokerProcess(tmp_path / "log") as broker:
        broker.start()
        with Log(broker.bootstrap) as log, edges(broker.bootstrap) as running:
            log.admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result()
            with following(f"{running.url}/topics/orders") as reader:
                put(log, "orders", *[(str(n), n) for n in range(10)])
                wait_for(reader, 10)
                broker.kill()
                broker.start()
                put(log, "orders", *[(str(n), n) for n in range(10, 20)])
                wait_for(reader, 20)
                assert sorted(map(int, reader.values())) == list(range(20))
                last = reader.last_id
            with following(f"{running.url}/topics/orders", {"last-event-id": last}) as reader:
                put(log, "orders", ("k", 20))
                wait_for(reader, 1)
                assert reader.values() == [20]
