"""Nexmark's generator: proportions, skew, disorder; and the same events from the same numbers."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from itertools import pairwise
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from bench.nexmark import events, generate
from bench.nexmark.events import AUCTION, BID, PERSON, TOPICS, Plan
from headwater.testing import broker

PLAN = Plan(20_000, seed=3, rate=1000, disorder=500)


def rows(plan: Plan, piece: int = 5_000) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {topic: [] for topic in TOPICS}
    for made in events.pieces(plan, piece):
        for topic, columns in made.items():
            text, ends = columns.data.tobytes(), columns.offsets.tolist()
            found[topic] += [json.loads(text[a:b]) for a, b in pairwise(ends)]
    return found


def test_of_fifty_events_one_is_a_person_three_are_auctions_and_the_rest_bids() -> None:
    made = rows(PLAN)
    assert [len(made[topic]) for topic in TOPICS] == [400, 1_200, 18_400]
    assert [row["id"] for row in made[PERSON]] == list(range(1000, 1400))
    assert [row["id"] for row in made[AUCTION]] == list(range(1000, 2200))


def test_some_auctions_bidders_and_sellers_are_hot() -> None:
    made = rows(PLAN)
    hot = sum(row["auction"] % 100 == 0 for row in made[BID])
    assert 0.48 < hot / len(made[BID]) < 0.55
    hot = sum(row["bidder"] % 100 == 1 for row in made[BID])
    assert 0.73 < hot / len(made[BID]) < 0.78
    hot = sum(row["seller"] % 100 == 0 for row in made[AUCTION])
    assert 0.70 < hot / len(made[AUCTION]) < 0.80
    channels = Counter(row["channel"] for row in made[BID])
    assert {name for name, _ in channels.most_common(4)} == {"Google", "Facebook", "Baidu", "Apple"}


def test_the_same_numbers_give_the_same_events_in_whatever_pieces() -> None:
    assert rows(PLAN, 5_000) == rows(PLAN, 777)
    assert rows(PLAN) != rows(Plan(20_000, seed=4, rate=1000, disorder=500))


def test_times_are_in_disorder_within_their_groups_only() -> None:
    times = [_time(row) for row in rows(PLAN)[BID]]
    newest, behind = times[0], 0.0
    for time in times:
        newest = max(newest, time)
        behind = max(behind, (newest - time).total_seconds())
    assert 0.3 < behind < 0.5  # a group is half a second
    assert sorted(times) != times
    ordered = [_time(row) for row in rows(Plan(2_000, disorder=1))[BID]]
    assert sorted(ordered) == ordered


def test_records_have_their_event_s_key_and_time_and_keys_keep_to_their_partitions() -> None:
    with broker() as kafka:
        generate.create(kafka.bootstrap, partitions=3)
        generate.write(kafka.bootstrap, PLAN)
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "test"})
        places = [TopicPartition(topic, n, OFFSET_BEGINNING) for topic in TOPICS for n in range(3)]
        consumer.assign(places)
        found: dict[str, list[dict[str, Any]]] = {topic: [] for topic in TOPICS}
        where: dict[tuple[str, bytes], int] = {}
        while sum(map(len, found.values())) < PLAN.events:
            for message in consumer.consume(1_000, timeout=60):
                row = json.loads(message.value())
                topic, key = message.topic(), message.key()
                assert int(key) == row["auction" if topic == BID else "id"]
                assert message.timestamp()[1] == _time(row).timestamp() * 1000
                assert where.setdefault((topic, key), message.partition()) == message.partition()
                found[topic].append(row)
        consumer.close()
    assert set(where.values()) == {0, 1, 2}
    for topic, made in rows(PLAN).items():
        assert sorted(map(str, found[topic])) == sorted(map(str, made))


def _time(row: dict[str, Any]) -> dt.datetime:
    return dt.datetime.fromisoformat(row["dateTime"])
