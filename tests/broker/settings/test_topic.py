"""From a topic's configs and the broker's settings to the `LogConfig` of its partitions."""

from __future__ import annotations

import logging

import pytest

from headwater.broker.settings import (
    Settings,
    check_topic_overrides,
    topic_config,
    topic_definitions,
)
from headwater.broker.settings.definitions import parse, render
from headwater.broker.settings.topic import topic_default
from headwater.log.config import LogConfig

HOUR_MS = 3_600_000


def test_without_a_word_from_anybody_a_log_has_kafkas_defaults():
    assert topic_config(Settings(), {}) == LogConfig()


def test_every_config_of_a_topic_reaches_the_log():
    changed = topic_config(
        Settings(),
        {
            "segment.bytes": "1048577",
            "segment.ms": "1",
            "segment.jitter.ms": "2",
            "segment.index.bytes": "3000",
            "index.interval.bytes": "4",
            "retention.bytes": "5",
            "retention.ms": "6",
            "cleanup.policy": "compact,delete",
            "delete.retention.ms": "7",
            "min.cleanable.dirty.ratio": "0.25",
            "min.compaction.lag.ms": "8",
            "max.compaction.lag.ms": "9",
            "file.delete.delay.ms": "10",
            "max.message.bytes": "11",
            "compression.type": "zstd",
            "compression.gzip.level": "1",
            "compression.lz4.level": "2",
            "compression.zstd.level": "-3",
            "message.timestamp.type": "LogAppendTime",
            "message.timestamp.before.max.ms": "12",
            "message.timestamp.after.max.ms": "13",
            "durability": "os",
        },
    )
    assert changed == LogConfig(
        segment_bytes=1_048_577,
        segment_ms=1,
        segment_jitter_ms=2,
        segment_index_bytes=3000,
        index_interval_bytes=4,
        retention_bytes=5,
        retention_ms=6,
        compact=True,
        delete=True,
        delete_retention_ms=7,
        min_cleanable_dirty_ratio=0.25,
        min_compaction_lag_ms=8,
        max_compaction_lag_ms=9,
        max_message_bytes=11,
        compression_type="zstd",
        compression_gzip_level=1,
        compression_lz4_level=2,
        compression_zstd_level=-3,
        timestamp_type="LogAppendTime",
        timestamp_before_max_ms=12,
        timestamp_after_max_ms=13,
        durability="os",
    )


def test_the_brokers_settings_are_the_topics_defaults():
    settings = Settings(
        {
            "log.segment.bytes": 2 * 1024**2,
            "log.cleanup.policy": "compact",
            "message.max.bytes": 99,
            "durability": "os",
        }
    )
    config = topic_config(settings, {"max.message.bytes": "100"})
    assert (config.segment_bytes, config.durability) == (2 * 1024**2, "os")
    assert (config.compact, config.delete) == (True, False)
    assert config.max_message_bytes == 100


@pytest.mark.parametrize(
    ("given", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-7"}, -1),
    ],
)
def test_milliseconds_win_over_minutes_and_minutes_over_hours(given, retention_ms):
    assert topic_config(Settings(given), {}).retention_ms == retention_ms


def test_segments_close_by_milliseconds_before_hours():
    given = {"log.roll.hours": "2", "log.roll.jitter.hours": "1"}
    config = topic_config(Settings(given), {})
    assert (config.segment_ms, config.segment_jitter_ms) == (2 * HOUR_MS, HOUR_MS)
    config = topic_config(Settings({**given, "log.roll.ms": "5", "log.roll.jitter.ms": "0"}), {})
    assert (config.segment_ms, config.segment_jitter_ms) == (5, 0)


def test_a_change_of_the_broker_reaches_topics_that_say_nothing_themselves():
    settings = Settings({"log.retention.hours": "2"})
    settings.set_dynamic("", {"log.retention.ms": "5"})
    assert topic_config(settings, {}).retention_ms == 5
    assert topic_config(settings, {"retention.ms": "6"}).retention_ms == 6


def test_small_segments_are_to_be_had_by_kafkas_internal_name():
    assert topic_config(Settings(), {"internal.segment.bytes": "1000"}).segment_bytes == 1000
    assert check_topic_overrides({"segment.bytes": "1000"}) is not None


def test_neither_delete_nor_compact_keeps_everything():
    config = topic_config(Settings(), {"cleanup.policy": ""})
    assert (config.compact, config.delete) == (False, False)


def test_what_is_wrong_with_overrides_is_said_in_one_sentence():
    assert check_topic_overrides({}) is None
    assert check_topic_overrides({"retention.ms": "5", "cleanup.policy": "compact"}) is None
    assert check_topic_overrides({"foo": "1"}) == "Unknown topic config name: foo"
    null = "Null value not supported for topic configs: retention.ms"
    assert check_topic_overrides({"retention.ms": None}) == null
    assert check_topic_overrides({"durability": "maybe"}) == (
        "Invalid value maybe for configuration durability: String must be one of: disk, os"
    )


def test_overrides_must_agree_with_what_the_topic_inherits():
    settings = Settings({"log.cleaner.max.compaction.lag.ms": "100"})
    assert check_topic_overrides({"min.compaction.lag.ms": "500"}) is None
    sentence = (
        "conflict topic config setting min.compaction.lag.ms (500) > max.compaction.lag.ms (100)"
    )
    assert check_topic_overrides({"min.compaction.lag.ms": "500"}, settings) == sentence


def test_an_override_that_cannot_be_read_is_left_out_and_logged(caplog):
    with caplog.at_level(logging.WARNING):
        config = topic_config(Settings(), {"retention.ms": "x", "gone": "1", "segment.ms": "5"})
    assert (config.retention_ms, config.segment_ms) == (LogConfig().retention_ms, 5)
    assert [record.args[0] for record in caplog.records] == ["retention.ms", "gone"]


def test_every_default_is_a_value_that_its_config_accepts():
    for definition in topic_definitions():
        default = topic_default(Settings(), definition)
        assert default == definition.default
        if default is not None:
            assert parse(definition, render(default) or "") == default
