"""What headwater does in its own way with the config APIs, and what no client may see or lose."""

from __future__ import annotations

import contextlib
import logging

import pytest
from kio.schema.incremental_alter_configs.v1.request import AlterableConfig, AlterConfigsResource

from headwater.broker.api.k32_describe_configs import Entry
from headwater.broker.settings import BadValue, Definition, Kind, Source
from headwater.broker.settings.definitions import one_of, parse
from headwater.broker.settings.values import Synonym

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
INVALID_CONFIG, INVALID_REQUEST = 40, 42
OK = (0, None)


def test_an_unknown_broker_setting_is_refused_with_the_nearest(ours):
    change = ("log.retention.msec", SET, "5")
    sentence = "Unknown setting log.retention.msec: did you mean log.retention.ms?"
    assert ours.incremental(BROKER, "1", change) == (INVALID_CONFIG, sentence)
    assert ours.replace(BROKER, "", ("log.retention.msec", "5")) == (INVALID_CONFIG, sentence)


def test_an_operation_that_the_protocol_does_not_have_is_refused(ours):
    outcome = ours.incremental(TOPIC, ours.topic(), ("segment.ms", 7, "5"))
    assert outcome == (INVALID_REQUEST, "Unknown config operation 7")


def test_durability_can_be_chosen_topic_by_topic_while_running(ours):
    topic = ours.topic()
    assert ours.incremental(BROKER, "", ("durability", SET, "os")) == OK
    ours.shows(TOPIC, topic, "durability", "os", Source.DYNAMIC_DEFAULT)
    assert ours.incremental(TOPIC, topic, ("durability", SET, "disk")) == OK
    ours.shows(TOPIC, topic, "durability", "disk", Source.TOPIC)


def test_what_the_broker_was_started_with_is_shown_as_such(start):
    below = [("log.segment.bytes", "2000000", 4), ("log.segment.bytes", "1073741824", 5)]
    with start({"num.partitions": "3", "log.segment.bytes": "2000000"}) as node:
        assert node.shows(TOPIC, node.topic(), "segment.bytes", "2000000", Source.STATIC) == below
        assert node.shows(BROKER, "1", "num.partitions", "3", Source.STATIC)[0][1] == "3"


def test_what_was_set_while_running_survives_a_restart(start):
    with start() as node:
        topic = node.topic(segment_ms="5000")
        assert node.incremental(TOPIC, topic, ("retention.ms", SET, "77")) == OK
        assert node.incremental(BROKER, "1", ("max.connections", SET, "500")) == OK
        assert node.incremental(BROKER, "", ("message.max.bytes", SET, "2000")) == OK
        assert node.incremental(BROKER, "", ("log.roll.ms", SET, "5")) == OK
        assert node.incremental(BROKER, "", ("log.roll.ms", DELETE, None)) == OK
    with start() as node:
        node.shows(TOPIC, topic, "segment.ms", "5000", Source.TOPIC)
        node.shows(TOPIC, topic, "retention.ms", "77", Source.TOPIC)
        node.shows(TOPIC, topic, "max.message.bytes", "2000", Source.DYNAMIC_DEFAULT)
        node.shows(BROKER, "1", "max.connections", "500", Source.DYNAMIC_BROKER)
        node.shows(BROKER, "1", "log.roll.ms", None, Source.DEFAULT)


def test_changes_at_the_same_time_are_all_kept(start):
    """Each changes another config of one topic, and all are read before the first is on disk."""
    names = ["segment.ms", "retention.ms", "flush.ms", "delete.retention.ms", "min.insync.replicas"]
    with start() as first, contextlib.ExitStack() as others:
        topic = first.topic()
        nodes = [
            others.enter_context(contextlib.closing(type(first)(first.bootstrap))) for _ in names
        ]
        for node, name in zip(nodes, names, strict=True):
            change = AlterableConfig(name=name, config_operation=SET, value="77")
            resource = AlterConfigsResource(
                resource_type=TOPIC, resource_name=topic, configs=(change,)
            )
            node.send(44, 1, resources=(resource,), validate_only=False)
        for node in nodes:
            assert node.receive(44, 1).responses[0].error_code == 0
        for name in names:
            first.shows(TOPIC, topic, name, "77", Source.TOPIC)


def test_the_levels_of_headwaters_loggers_are_shown_and_changed(ours):
    name = "headwater.test.loud"
    logger = logging.getLogger(name)
    try:
        assert ours.incremental(LOGGER, "1", (name, SET, "TRACE"), validate_only=True) == OK
        assert logger.level == logging.NOTSET
        assert ours.incremental(LOGGER, "1", (name, SET, "TRACE")) == OK
        assert ours.shows(LOGGER, "1", name, "TRACE", Source.LOGGER) == []
        assert logger.level == 5
        assert ours.incremental(LOGGER, "1", (name, DELETE, None)) == OK
        assert logger.level == logging.NOTSET
    finally:
        logger.setLevel(logging.NOTSET)


def test_loggers_of_the_application_around_the_broker_are_left_alone(ours):
    logging.getLogger("somebody.else")
    names = [each.name for each in ours.describe(LOGGER, "1").configs]
    assert names[0] == "headwater"
    assert all(name.split(".")[0] == "headwater" for name in names)
    outcome = ours.incremental(LOGGER, "1", ("somebody.else", SET, "DEBUG"))
    assert outcome == (INVALID_CONFIG, "Logger somebody.else does not exist!")
    assert ours.incremental(LOGGER, "1", ("headwater", DELETE, None))[0] == INVALID_REQUEST


def test_a_password_is_never_shown():
    definition = Definition("ssl.key.password", Kind.PASSWORD, None, "A secret.")
    synonyms = [Synonym("ssl.key.password", "s3cret", Source.STATIC)]
    shown = Entry(definition, "s3cret", Source.STATIC, synonyms).as_dict(synonyms=True)
    assert shown["is_sensitive"] is True
    assert "s3cret" not in str(shown)
    with pytest.raises(BadValue) as refused:
        parse(definition._replace(check=one_of("other")), "s3cret")
    assert "s3cret" not in str(refused.value)
