"""The whole of what DescribeConfigs lists, headwater beside Apache Kafka."""

from __future__ import annotations

from typing import Any, NamedTuple

from headwater.broker.settings.reference import DIFFERENCES
from tests.broker.processes import broker_process
from tests.broker.settings.conftest import Node

TOPIC, BROKER = 2, 4
NOT_IN_KAFKA = {
    name for name, text in DIFFERENCES.items() if "own" in text.split() or "not show" in text
}
"""Those of them that Apache Kafka does not list at all."""
STATIC, DEFAULT = 4, 5


class Shown(NamedTuple):
    """What a client may compare of a config."""

    default: str | None
    type: int
    read_only: bool
    sensitive: bool
    below: tuple[str, ...]


def _shown(configs: Any) -> dict[str, Shown]:
    """By name; `default` and `below` do not depend on what this broker was started with."""
    found = {}
    for each in configs:
        defaults = {s.name: s.value for s in each.synonyms if s.source == DEFAULT}
        default = each.value if each.config_source == DEFAULT else defaults.get(each.name)
        found[each.name] = Shown(
            default, each.config_type, each.read_only, each.is_sensitive, tuple(defaults)
        )
    return found


def test_a_topic_has_the_same_configs_as_in_kafka(ours, kafka):
    here = _shown(ours.describe(TOPIC, ours.topic()).configs)
    there = _shown(kafka.describe(TOPIC, kafka.topic()).configs)
    assert here.keys() - there.keys() == {"durability", "schema.validation"}
    assert there.keys() - here.keys() == set()
    assert [name for name in there if here[name] != there[name]] == []


def test_sources_and_values_of_a_topics_configs_are_the_same_as_in_kafka(ours, kafka):
    changed = {"retention_ms": "1000", "cleanup_policy": "compact", "min_insync_replicas": "2"}

    def listed(node: Any) -> dict[str, Any]:
        configs = node.describe(TOPIC, node.topic(**changed)).configs
        return {
            each.name: (
                each.value,
                each.config_source,
                [(s.name, s.value, s.source) for s in each.synonyms],
            )
            for each in configs
            if each.name not in ("durability", "schema.validation", "min.insync.replicas")
        }

    assert listed(ours) == listed(kafka)


def test_the_broker_has_kafkas_settings_with_kafkas_defaults(ours, kafka):
    here = _shown(ours.describe(BROKER, "1").configs)
    there = _shown(kafka.describe(BROKER, "1").configs)
    assert here.keys() - there.keys() == NOT_IN_KAFKA
    differing = {name for name in here.keys() & there.keys() if here[name] != there[name]}
    assert differing | NOT_IN_KAFKA | {"min.insync.replicas"} == DIFFERENCES.keys()


def test_a_topic_at_its_defaults_shows_none_of_our_own_values_as_somebodys_choice(
    ours, kafka, data
):
    """However the broker was started: tools take whatever is not a default for a change."""

    def chosen(node: Any) -> dict[str, Any]:
        configs = node.describe(TOPIC, node.topic()).configs
        return {each.name: each.config_source for each in configs if each.config_source != DEFAULT}

    assert chosen(ours) == {}
    assert chosen(kafka).keys() <= {"min.insync.replicas"}  # see DIFFERENCES
    with broker_process(data, words=["--durability=os"]) as started:
        node = Node(started.bootstrap)
        assert chosen(node) == {}
        node.close()


def test_what_was_given_at_start_is_shown_as_such(kafka, data):
    words = ["--advertise=localhost:12345"]

    def source(node: Any, name: str) -> int:
        return next(c.config_source for c in node.describe(BROKER, "1").configs if c.name == name)

    with broker_process(data, "num.partitions=3", words=words) as started:
        node = Node(started.bootstrap)
        for name in ("listeners", "advertised.listeners"):
            assert source(node, name) == source(kafka, name) == STATIC
        assert source(node, "num.partitions") == STATIC
        assert source(node, "durability") == DEFAULT
        node.close()
