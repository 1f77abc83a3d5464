"""The same questions to Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.browse.decoder import Decoder
from headwater.browse.pages import page
from headwater.browse.replay import plan, replay
from headwater.browse.search import by_key
from headwater.browse.state import state_of
from headwater.client import groups, topics
from headwater.client.groups import Reset
from headwater.client.log import Log
from headwater.client.places import Place, parse
from headwater.client.publisher import Draft, publish
from tests.browse.conftest import make_topic, put
from tests.client.test_share_groups import share_group_is_shown_moved_and_deleted
from tests.compat.kafka_log import kafka_log
from tests.compat.waiting import until

T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def kafka() -> Iterator[Log]:
    with kafka_log() as log:
        yield log


def test_every_question_is_answered_by_apache_kafka_as_well(kafka: Log):
    source, target = (make_topic(kafka, 3, retention_ms=-1) for _ in range(2))
    rows = [
        {
            "key": b"k%d" % (i % 5),
            "value": b'{"n": %d}' % i,
            "partition": i % 3,
            "timestamp": T0 + i,
        }
        for i in range(60)
    ]
    put(kafka, source, rows)
    assert replay(kafka, plan(kafka, source, target)).records == 60
    # Kafka writes the markers of a transaction after its answer.
    until(lambda: len(page(kafka, target, limit=100).records) == 60, "the replay to be seen")
    for name in (source, target):  # the one with markers of a transaction at its end as well
        newest = page(kafka, name, back=True, limit=10)
        assert [r.timestamp_ms - T0 for r in newest.records] == list(range(59, 49, -1))
        rest = page(kafka, name, Place(cursor=newest.next), back=True, limit=100)
        assert [r.timestamp_ms - T0 for r in rest.records] == list(range(49, -1, -1))
        assert page(kafka, name, Place(time_ms=T0 + 30), limit=1).records[0].timestamp_ms == T0 + 30
    stored = publish(kafka, source, Draft(b"ann", b'{"n": 1}', (("h", b"1"),)))
    found = by_key(kafka, source, "ann", Decoder(kafka))
    assert (found.page.records[0].offset, found.partitions) == (stored.offset, [stored.partition])
    assert state_of(kafka, source, "ann").row == {"n": 1}
    described = topics.named(kafka, target)
    assert described.bytes is not None and described.bytes > 0
    groups.apply_reset(kafka, groups.plan_reset(kafka, "g", Reset(parse("5")), [source]))
    group = groups.named(kafka, "g")
    assert (group.state, group.lag) == ("EMPTY", 61 - 15)
    assert [each.name for each in groups.listed(kafka)] == ["g"]
    groups.delete(kafka, "g")
    assert groups.listed(kafka) == []


def test_a_share_group_of_apache_kafka_is_shown_moved_and_deleted(kafka: Log):
    share_group_is_shown_moved_and_deleted(kafka, make_topic(kafka), "queue")
