"""Configs of groups and of client metrics subscriptions, the same on both servers."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.compat.waiting import until

METRICS, GROUP = 16, 32
SET, DELETE, APPEND = 0, 1, 2
FROM_GROUP, FROM_METRICS, DEFAULT = 8, 7, 5
INVALID_CONFIG, INVALID_REQUEST = 40, 42
LIST_CONFIG_RESOURCES = 74


def _name() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


def _listed(node: Any, kind: int) -> set[str]:
    answer = node.ask(LIST_CONFIG_RESOURCES, 1, resource_types=(kind,))
    assert {each.resource_type for each in answer.config_resources} <= {kind}
    return {each.resource_name for each in answer.config_resources}


def test_a_group_keeps_its_own_configs_and_takes_the_others_from_the_broker(node):
    name = _name()
    key = "consumer.session.timeout.ms"
    below = ("group.consumer.session.timeout.ms", "45000", DEFAULT)
    assert node.shows(GROUP, name, key, "45000", DEFAULT) == [below]
    assert node.incremental(GROUP, name, (key, SET, "50000")) == (0, None)
    assert node.shows(GROUP, name, key, "50000", FROM_GROUP) == [(key, "50000", FROM_GROUP), below]
    until(lambda: name in _listed(node, GROUP), "its name in the list")
    assert node.incremental(GROUP, name, (key, DELETE, None)) == (0, None)
    assert node.shows(GROUP, name, key, "45000", DEFAULT) == [below]
    until(lambda: name not in _listed(node, GROUP), "its name to go from the list")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("consumer.session.timeout.ms", "5000"),
        ("consumer.session.timeout.ms", "500000"),
        ("consumer.session.timeout.ms", "x"),
        ("consumer.heartbeat.interval.ms", "60000"),
        ("consumer.assignment.interval.ms", "-1"),
        ("streams.session.timeout.ms", "5000"),
        ("streams.heartbeat.interval.ms", "60000"),
        ("streams.assignment.interval.ms", "15001"),
        ("streams.num.standby.replicas", "3"),
        ("streams.num.standby.replicas", "-1"),
        ("streams.initial.rebalance.delay.ms", "-1"),
        ("share.auto.offset.reset", "none"),
        ("share.auto.offset.reset", "by_duration:1H"),
        ("share.isolation.level", "serializable"),
        ("share.delivery.count.limit", "1"),
        ("share.delivery.count.limit", "11"),
        ("share.partition.max.record.locks", "99999"),
        ("share.record.lock.duration.ms", "999"),
        ("share.renew.acknowledge.enable", "maybe"),
        ("retention.ms", "5"),
    ],
)
def test_what_a_group_may_not_have_is_refused_in_kafkas_words(ours, kafka, key, value):
    here, there = (each.incremental(GROUP, _name(), (key, SET, value)) for each in (ours, kafka))
    assert here == there
    assert here[0] == INVALID_CONFIG


def test_every_config_of_a_group_has_kafkas_default(ours, kafka):
    def shown(node: Any) -> dict[str, Any]:
        return {
            each.name: (each.value, each.config_type, [s.name for s in each.synonyms])
            for each in node.describe(GROUP, "nobody").configs
            # dead letters are not in Kafka 4.3 (KIP-1191)
            if not each.name.startswith("errors.deadletterqueue.")
        }

    assert shown(ours) == shown(kafka)


def test_a_subscription_to_client_metrics_is_kept_and_ended(node):
    name = _name()
    asked = (("interval.ms", SET, "1000"), ("match", SET, "client_id=a.*,client_source_port=9.*"))
    assert node.incremental(METRICS, name, *asked) == (0, None)
    node.shows(METRICS, name, "interval.ms", "1000", FROM_METRICS)
    node.shows(METRICS, name, "metrics", "", DEFAULT)
    until(lambda: name in _listed(node, METRICS), "its name in the list")
    first = node.ask(LIST_CONFIG_RESOURCES, 0)
    assert name in {each.resource_name for each in first.config_resources}
    gone = (("interval.ms", DELETE, None), ("match", DELETE, None))
    assert node.incremental(METRICS, name, *gone) == (0, None)
    node.shows(METRICS, name, "interval.ms", "300000", DEFAULT)
    until(lambda: name not in _listed(node, METRICS), "its name to go from the list")


@pytest.mark.parametrize(
    ("key", "verb", "value"),
    [
        ("interval.ms", SET, "50"),
        ("interval.ms", SET, "x"),
        ("match", SET, "shoe_size=43"),
        ("match", SET, "client_id=["),
        ("match", SET, "client_id"),
        ("metrics", APPEND, "org."),
        ("nope", SET, "1"),
    ],
)
def test_what_a_subscription_may_not_have_is_refused_in_kafkas_words(ours, kafka, key, verb, value):
    name = _name()
    here, there = (each.incremental(METRICS, name, (key, verb, value)) for each in (ours, kafka))
    assert here == there
    assert here[0] in (INVALID_CONFIG, INVALID_REQUEST)


@pytest.mark.parametrize("kind", [METRICS, GROUP])
def test_without_a_name_there_is_nothing_to_change_or_show(ours, kafka, kind):
    key = "interval.ms"
    changed = [node.incremental(kind, "", (key, SET, "100")) for node in (ours, kafka)]
    shown = [node.describe(kind, "") for node in (ours, kafka)]
    assert changed[0] == changed[1]
    assert shown[0] == shown[1]
    assert changed[0][0] == shown[0].error_code == INVALID_REQUEST


def test_an_unknown_kind_of_resource_cannot_be_listed(node):
    answer = node.ask(LIST_CONFIG_RESOURCES, 1, resource_types=(99,))
    assert (answer.error_code, answer.config_resources) == (35, ())


def test_both_survive_a_restart(start):
    with start() as node:
        node.incremental(GROUP, "g", ("share.delivery.count.limit", SET, "7"))
        node.incremental(METRICS, "m", ("metrics", SET, "org."))
    with start() as node:
        node.shows(GROUP, "g", "share.delivery.count.limit", "7", FROM_GROUP)
        node.shows(METRICS, "m", "metrics", "org.", FROM_METRICS)
