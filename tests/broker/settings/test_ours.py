"""What headwater does in its own way with the config APIs, and what no client may see or lose."""

from __future__ import annotations

import asyncio
import io
import logging
import struct

import pytest
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.serial import entity_writer

from headwater.broker.settings import Kind, Settings, Source
from headwater.broker.settings.definitions import BadValue, Definition, one_of, parse
from headwater.broker.settings.describe import Entry
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


@pytest.mark.parametrize("kind", [METRICS, GROUP])
def test_groups_and_client_metrics_have_no_configs_yet(ours, kind):
    refusal = (INVALID_REQUEST, f"Unknown resource type {kind}")
    assert ours.incremental(kind, "x", ("interval.ms", SET, "5")) == refusal
    assert ours.describe(kind, "x").error_code == INVALID_REQUEST


def test_an_operation_that_the_protocol_does_not_have_is_refused(ours):
    outcome = ours.incremental(TOPIC, ours.topic(), ("segment.ms", 7, "5"))
    assert outcome == (INVALID_REQUEST, "Unknown config operation 7")


def test_durability_can_be_chosen_topic_by_topic_while_running(ours):
    topic = ours.topic()
    assert ours.incremental(BROKER, "", ("durability", SET, "os")) == OK
    ours.shows(TOPIC, topic, "durability", "os", Source.DYNAMIC_DEFAULT)
    assert ours.incremental(TOPIC, topic, ("durability", SET, "disk")) == OK
    ours.shows(TOPIC, topic, "durability", "disk", Source.TOPIC)


def test_what_the_broker_was_started_with_is_shown_as_such(ours):
    ours.settings = Settings({"num.partitions": "3", "log.segment.bytes": "2000000"})
    below = [("log.segment.bytes", "2000000", 4), ("log.segment.bytes", "1073741824", 5)]
    assert ours.shows(TOPIC, ours.topic(), "segment.bytes", "2000000", Source.STATIC) == below
    assert ours.shows(BROKER, "1", "num.partitions", "3", Source.STATIC)[0][1] == "3"


def test_two_changes_at_the_same_time_are_both_kept(ours):
    """Each appends to the same list, and the disk lets the other in between."""
    topic = ours.topic(cleanup_policy="")

    def frame(policy: str) -> bytes:
        change = AlterableConfig(name="cleanup.policy", config_operation=APPEND, value=policy)
        request = IncrementalAlterConfigsRequest(
            resources=(
                AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=(change,)),
            ),
            validate_only=False,
        )
        out = io.BytesIO(struct.pack(">hhih", 44, 1, 7, 0) + b"\0")
        out.seek(0, io.SEEK_END)
        entity_writer(IncrementalAlterConfigsRequest)(out, request)
        return out.getvalue()

    async def both() -> None:
        await asyncio.gather(*(ours.answer(frame(each)) for each in ("compact", "delete")))

    asyncio.run(both())
    assert ours.topics[topic].configs == {"cleanup.policy": "compact,delete"}


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
