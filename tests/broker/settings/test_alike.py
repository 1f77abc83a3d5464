"""What clients see of configs: every test here runs against headwater and against Apache Kafka."""

from __future__ import annotations

import pytest

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
OF_TOPIC, OF_BROKER, OF_ALL_BROKERS, DEFAULT = 1, 2, 3, 5
INVALID_CONFIG, INVALID_REQUEST, INVALID_TOPIC, UNKNOWN_TOPIC = 40, 42, 17, 3
OK = (0, None)

LOWEST = {
    "retention.ms": -1,
    "segment.bytes": 1048576,
    "segment.ms": 1,
    "segment.jitter.ms": 0,
    "segment.index.bytes": 4,
    "index.interval.bytes": 0,
    "message.timestamp.before.max.ms": 0,
    "message.timestamp.after.max.ms": 0,
    "min.insync.replicas": 1,
    "local.retention.ms": -2,
    "local.retention.bytes": -2,
    "flush.messages": 1,
    "flush.ms": 0,
    "max.message.bytes": 0,
    "file.delete.delay.ms": 0,
    "delete.retention.ms": 0,
    "max.compaction.lag.ms": 1,
    "min.compaction.lag.ms": 0,
    "min.cleanable.dirty.ratio": 0,
    "compression.lz4.level": 1,
    "compression.zstd.level": -131072,
}
HIGHEST = {
    "min.cleanable.dirty.ratio": 1,
    "compression.lz4.level": 17,
    "compression.zstd.level": 22,
}
CODECS = "uncompressed, zstd, lz4, snappy, gzip, producer"
REFUSED = [
    ("retention.ms", "abc", "Not a number of type LONG"),
    ("retention.ms", "", "Not a number of type LONG"),
    ("retention.ms", "1_000", "Not a number of type LONG"),
    ("retention.ms", "9223372036854775808", "Not a number of type LONG"),
    ("segment.bytes", "2147483648", "Not a number of type INT"),
    ("min.cleanable.dirty.ratio", "half", "Not a number of type DOUBLE"),
    ("min.cleanable.dirty.ratio", "0_1", "Not a number of type DOUBLE"),
    ("preallocate", "yes", "Expected value to be either true or false"),
    ("cleanup.policy", "x", "String must be one of: compact, delete"),
    ("cleanup.policy", "compact,x", "String must be one of: compact, delete"),
    ("compression.type", "brotli", f"String must be one of: {CODECS}"),
    ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
    ("message.timestamp.type", "logappendtime", "String must be one of: CreateTime, LogAppendTime"),
]
ACCEPTED = [
    ("retention.ms", " 77 "),
    ("retention.ms", "+77"),
    ("retention.bytes", "-5"),
    ("cleanup.policy", ""),
    ("cleanup.policy", "compact , delete"),
    ("cleanup.policy", "compact,compact"),
    ("preallocate", "TRUE"),
    ("compression.type", "uncompressed"),
    ("compression.gzip.level", "-1"),
    ("min.cleanable.dirty.ratio", "1e-3"),
    ("unclean.leader.election.enable", "true"),
    ("leader.replication.throttled.replicas", "0:1,1:1"),
    ("follower.replication.throttled.replicas", "*"),
    ("internal.segment.bytes", "1000"),
    ("local.retention.ms", "5"),
    ("remote.log.copy.disable", "true"),
]


def test_a_value_that_is_none_is_refused_with_the_same_sentence(node):
    topic = node.topic()
    for name, value, problem in REFUSED:
        shown = value.removeprefix("compact,")
        sentence = f"Invalid value {shown} for configuration {name}: {problem}"
        outcome = node.incremental(TOPIC, topic, (name, SET, value))
        assert outcome == (INVALID_CONFIG, sentence)


def test_numbers_have_the_same_bounds(node):
    topic = node.topic()
    for bounds, words, step in ((LOWEST, "at least", -1), (HIGHEST, "no more than", 1)):
        for name, bound in bounds.items():
            below = str(bound + step)
            sentence = (
                f"Invalid value {below} for configuration {name}: Value must be {words} {bound}"
            )
            if "ratio" in name:
                sentence = sentence.replace(f"value {below}", f"value {below}.0")
                below += ".0"
            ask = node.incremental
            assert ask(TOPIC, topic, (name, SET, below)) == (INVALID_CONFIG, sentence)
            assert ask(TOPIC, topic, (name, SET, str(bound)), validate_only=True) == OK, name


def test_other_sentences_of_refusal_are_the_same(node):
    topic = node.topic()
    throttled = "leader.replication.throttled.replicas"
    for operation, sentence in {
        ("no.such.config", SET, "1"): "Unknown topic config name: no.such.config",
        ("cleanup.policy", SET, "compact,"): "Configuration 'cleanup.policy' values must not be "
        "empty.",
        ("remote.storage.enable", SET, "true"): "Tiered Storage functionality is disabled in the "
        "broker. Topic cannot be configured with remote log storage.",
        ("retention.ms", APPEND, "5"): "Can't APPEND to key retention.ms because its type is not "
        "LIST.",
        ("retention.ms", SUBTRACT, "5"): "Can't SUBTRACT to key retention.ms because its type is "
        "not LIST.",
        ("no.such.config", APPEND, "1"): "Can't APPEND to key no.such.config because its type is "
        "not LIST.",
        (throttled, SET, "x"): f"Invalid value [x] for configuration {throttled}: {throttled} must "
        "be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    }.items():
        assert node.incremental(TOPIC, topic, operation) == (INVALID_CONFIG, sentence)


def test_two_configs_that_contradict_each_other_are_refused(node):
    topic = node.topic(max_compaction_lag_ms="100")
    sentence = (
        "conflict topic config setting min.compaction.lag.ms (500) > max.compaction.lag.ms (100)"
    )
    change = ("min.compaction.lag.ms", SET, "500")
    assert node.incremental(TOPIC, topic, change) == (INVALID_CONFIG, sentence)


def test_what_kafka_accepts_is_accepted(node):
    topic = node.topic()
    for name, value in ACCEPTED:
        assert node.incremental(TOPIC, topic, (name, SET, value), validate_only=True) == OK, name


def test_a_value_is_shown_in_one_form_however_it_was_written(node):
    topic = node.topic(retention_ms=" 88 ", preallocate="TRUE", cleanup_policy="compact,compact")
    shown = {each.name: each.value for each in node.describe(TOPIC, topic).configs}
    assert shown["retention.ms"] == "88"
    assert shown["preallocate"] == "true"
    assert shown["cleanup.policy"] == "compact"


def test_lists_are_appended_to_and_subtracted_from(node):
    topic = node.topic()
    default = ("log.cleanup.policy", "delete", DEFAULT)
    for verb, value, after in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
        (SET, "delete", "delete"),
    ):
        assert node.incremental(TOPIC, topic, ("cleanup.policy", verb, value)) == OK
        synonyms = node.shows(TOPIC, topic, "cleanup.policy", after, OF_TOPIC)
        assert synonyms == [("cleanup.policy", after, OF_TOPIC), default]
    assert node.incremental(TOPIC, topic, ("cleanup.policy", DELETE, "ignored")) == OK
    assert node.shows(TOPIC, topic, "cleanup.policy", "delete", DEFAULT) == [default]


def test_deleting_what_is_not_set_or_not_known_is_no_mistake(node):
    changes = ("segment.ms", DELETE, None), ("no.such.config", DELETE, None)
    assert node.incremental(TOPIC, node.topic(), *changes) == OK
    assert node.incremental(BROKER, "1", ("num.partitions", DELETE, None)) == OK


def test_no_operations_change_nothing(node):
    topic = node.topic(segment_ms="5000")
    assert node.incremental(TOPIC, topic) == OK
    node.shows(TOPIC, topic, "segment.ms", "5000", OF_TOPIC)


def test_nulls_and_names_given_twice_are_refused(node):
    topic = node.topic()
    twice = (INVALID_REQUEST, "Error due to duplicate config keys")
    null = (INVALID_REQUEST, "Null value not supported for : segment.ms")
    ask, replace = node.incremental, node.replace
    assert ask(TOPIC, topic, ("segment.ms", SET, "5"), ("segment.ms", DELETE, None)) == twice
    assert replace(TOPIC, topic, ("segment.ms", "5"), ("segment.ms", "6")) == twice
    assert ask(TOPIC, topic, ("segment.ms", SET, None)) == null
    assert ask(TOPIC, topic, ("segment.ms", APPEND, None)) == null
    assert replace(TOPIC, topic, ("segment.ms", None)) == null


def test_alter_configs_replaces_everything(node):
    topic = node.topic(retention_ms="1000", segment_bytes="2000000")
    assert node.replace(TOPIC, topic, ("segment.ms", "5000")) == OK
    node.shows(TOPIC, topic, "segment.ms", "5000", OF_TOPIC)
    node.shows(TOPIC, topic, "retention.ms", "604800000", DEFAULT)
    node.shows(TOPIC, topic, "segment.bytes", "1073741824", DEFAULT)
    assert node.replace(TOPIC, topic, ("no.such.config", "1"))[0] == INVALID_CONFIG
    node.shows(TOPIC, topic, "segment.ms", "5000", OF_TOPIC)
    assert node.replace(TOPIC, topic) == OK
    node.shows(TOPIC, topic, "segment.ms", "604800000", DEFAULT)


@pytest.mark.parametrize("version", [0, 1])
def test_validate_only_changes_nothing(node, version):
    topic = node.topic()
    change = ("segment.ms", SET, "5000")
    ask = node.incremental
    assert ask(TOPIC, topic, change, validate_only=True, version=version) == OK
    assert (
        node.replace(TOPIC, topic, ("segment.ms", "5000"), validate_only=True, version=version)
        == OK
    )
    assert ask(BROKER, "1", ("log.roll.ms", SET, "5000"), validate_only=True) == OK
    assert ask(TOPIC, topic, ("retention.ms", SET, "1"), version=version) == OK
    node.shows(TOPIC, topic, "retention.ms", "1", OF_TOPIC)
    node.shows(TOPIC, topic, "segment.ms", "604800000", DEFAULT)
    node.shows(BROKER, "1", "log.roll.ms", None, DEFAULT)


def test_topics_that_are_not_there_or_cannot_be(node):
    change = ("segment.ms", SET, "5000")
    missing = "The topic 'no-such-topic' does not exist."
    long = "x" * 250
    characters = "one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    names = {
        "bad/name": f"'bad/name' contains {characters}",
        "schön": f"'schön' contains {characters}",
        long: f"the length of '{long}' is longer than the max allowed length 249",
        "..": "'..' is not allowed",
    }
    assert node.incremental(TOPIC, "no-such-topic", change) == (UNKNOWN_TOPIC, missing)
    assert node.replace(TOPIC, "no-such-topic", ("segment.ms", "5")) == (UNKNOWN_TOPIC, missing)
    assert node.incremental(TOPIC, "no-such-topic", ("nope", SET, "1"))[0] == INVALID_CONFIG
    assert node.incremental(TOPIC, "", change)[0] == INVALID_REQUEST
    assert node.describe(TOPIC, "no-such-topic").error_code == UNKNOWN_TOPIC
    assert node.describe(TOPIC, "").error_code == INVALID_TOPIC
    for name, problem in names.items():
        sentence = f"Topic name is invalid: {problem}"
        assert node.incremental(TOPIC, name, change) == (INVALID_TOPIC, sentence)
        described = node.describe(TOPIC, name)
        assert (described.error_code, described.error_message) == (INVALID_TOPIC, sentence)


def test_resources_that_nobody_knows_are_refused(node):
    change = ("segment.ms", SET, "5000")
    for kind in (0, 3):
        refusal = (INVALID_REQUEST, f"Unknown resource type {kind}")
        assert node.incremental(kind, "x", change) == refusal
    assert node.replace(LOGGER, "1", ("root", "INFO")) == (
        INVALID_REQUEST,
        "Unknown resource type 8",
    )
    assert node.describe(3, "x").error_code == INVALID_REQUEST


@pytest.mark.parametrize("name", ["7", "x", "-1", "1.0"])
def test_another_broker_is_refused(node, name):
    change = ("log.retention.ms", SET, "5000")
    assert node.incremental(BROKER, name, change)[0] == INVALID_REQUEST
    assert node.replace(BROKER, name, ("log.retention.ms", "5"))[0] == INVALID_REQUEST
    assert node.describe(BROKER, name).error_code == INVALID_REQUEST
    assert node.describe(LOGGER, name).error_code == INVALID_REQUEST


def test_settings_that_need_a_restart_are_refused(node):
    sentence = "Cannot update these configs dynamically: [num.partitions]"
    for name in ("1", ""):
        change = ("num.partitions", SET, "3"), ("log.retention.ms", SET, "5")
        assert node.incremental(BROKER, name, *change) == (INVALID_REQUEST, sentence)
        assert node.replace(BROKER, name, ("num.partitions", "3")) == (INVALID_REQUEST, sentence)


def test_a_broker_setting_of_the_wrong_form_is_an_invalid_request(node):
    sentence = "Invalid value abc for configuration log.retention.ms: Not a number of type LONG"
    change = ("log.retention.ms", SET, "abc")
    assert node.incremental(BROKER, "1", change) == (INVALID_REQUEST, sentence)
    assert node.incremental(BROKER, "1", ("log.retention.ms", SET, "0"))[0] == INVALID_REQUEST
    assert node.incremental(BROKER, "1", ("log.roll.ms", APPEND, "5"))[0] == INVALID_CONFIG


def test_the_four_layers_of_a_setting_and_a_topic_above_them(node):
    topic = node.topic()
    default = ("message.max.bytes", "1048588", DEFAULT)
    of_all = ("message.max.bytes", "3000000", OF_ALL_BROKERS)
    of_one = ("message.max.bytes", "2000000", OF_BROKER)
    name, key, ask = "message.max.bytes", "max.message.bytes", node.incremental

    assert node.shows(TOPIC, topic, key, "1048588", DEFAULT) == [default]
    assert ask(BROKER, "1", (name, SET, "2000000")) == OK
    assert node.shows(TOPIC, topic, key, "2000000", OF_BROKER) == [of_one, default]
    assert ask(BROKER, "", (name, SET, "3000000")) == OK
    node.shows(BROKER, "", name, "3000000", OF_ALL_BROKERS)
    assert node.shows(BROKER, "1", name, "2000000", OF_BROKER) == [of_one, of_all, default]
    assert ask(TOPIC, topic, (key, SET, "4000000")) == OK
    synonyms = node.shows(TOPIC, topic, key, "4000000", OF_TOPIC)
    assert synonyms == [(key, "4000000", OF_TOPIC), of_one, of_all, default]
    assert ask(BROKER, "1", (name, DELETE, None)) == OK
    assert node.shows(BROKER, "1", name, "3000000", OF_ALL_BROKERS) == [of_all, default]
    assert ask(BROKER, "", (name, DELETE, None)) == OK
    assert node.shows(BROKER, "1", name, "1048588", DEFAULT) == [default]
    assert ask(TOPIC, topic, (key, DELETE, None)) == OK
    assert node.shows(TOPIC, topic, key, "1048588", DEFAULT) == [default]


def test_times_in_other_units_stand_below_milliseconds(node):
    topic = node.topic()
    hours = ("log.retention.hours", "168", DEFAULT)
    changed = ("log.retention.ms", "5000", OF_BROKER)
    assert node.shows(BROKER, "1", "log.retention.ms", None, DEFAULT) == []
    assert node.shows(TOPIC, topic, "retention.ms", "604800000", DEFAULT) == []
    assert node.incremental(BROKER, "1", ("log.retention.ms", SET, "5000")) == OK
    assert node.shows(BROKER, "1", "log.retention.ms", "5000", OF_BROKER) == [changed, hours]
    assert node.shows(TOPIC, topic, "retention.ms", "5000", OF_BROKER) == [changed, hours]
    assert node.shows(BROKER, "1", "log.retention.hours", "168", DEFAULT) == [hours]
    assert node.replace(BROKER, "1") == OK
    assert node.shows(TOPIC, topic, "retention.ms", "604800000", DEFAULT) == []


def test_a_list_of_the_broker_is_appended_to(node):
    default = ("log.cleanup.policy", "delete", DEFAULT)
    change = ("log.cleanup.policy", APPEND, "compact")
    assert node.incremental(BROKER, "1", change) == OK
    synonyms = node.shows(BROKER, "1", "log.cleanup.policy", "delete,compact", OF_BROKER)
    assert synonyms == [("log.cleanup.policy", "delete,compact", OF_BROKER), default]
    assert node.replace(BROKER, "1") == OK
    assert node.shows(BROKER, "1", "log.cleanup.policy", "delete", DEFAULT) == [default]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_keys_choose_and_unknown_ones_are_left_out(node, version):
    topic = node.topic()
    result = node.describe(TOPIC, topic, "segment.ms", "no.such", version=version, synonyms=False)
    assert result.error_code == 0
    (config,) = result.configs
    assert (config.name, config.value, config.synonyms) == ("segment.ms", "604800000", ())
    assert (config.read_only, config.config_source, config.is_sensitive) == (False, DEFAULT, False)
    if version >= 3:
        assert (config.config_type, config.documentation) == (5, None)
        documented = node.describe(
            TOPIC, topic, "segment.ms", version=version, include_documentation=True
        )
        assert documented.configs[0].documentation


def test_one_resource_twice_in_one_request_is_refused_both_times(node):
    from kio.schema.incremental_alter_configs.v1.request import (
        AlterableConfig,
        AlterConfigsResource,
    )

    topic, other = node.topic(), node.topic()
    change = AlterableConfig(name="segment.ms", config_operation=SET, value="5000")
    resources = tuple(
        AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=(change,))
        for name in (topic, other, topic)
    )
    answers = node.ask(44, 1, resources=resources, validate_only=False).responses
    codes = sorted((each.resource_name, int(each.error_code)) for each in answers)
    assert codes == sorted([(topic, INVALID_REQUEST), (topic, INVALID_REQUEST), (other, 0)])
    node.shows(TOPIC, other, "segment.ms", "5000", OF_TOPIC)
    node.shows(TOPIC, topic, "segment.ms", "604800000", DEFAULT)


def test_log_levels_are_refused_alike(node):
    (*_, logger) = node.describe(LOGGER, "1").configs
    ask = node.incremental
    levels = "DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
    assert ask(LOGGER, "1", (logger.name, SET, "LOUD")) == (
        INVALID_CONFIG,
        f"Cannot set the log level of {logger.name} to LOUD as it is not a supported log level. "
        f"Valid log levels are {levels}",
    )
    missing = (INVALID_CONFIG, "Logger no.such does not exist!")
    assert ask(LOGGER, "1", ("no.such", SET, "INFO")) == missing
    sentence = "APPEND operation is not allowed for the BROKER_LOGGER resource"
    assert ask(LOGGER, "1", (logger.name, APPEND, "INFO")) == (INVALID_REQUEST, sentence)
    assert ask(LOGGER, "2", (logger.name, SET, "INFO"))[0] == INVALID_REQUEST
    assert ask(LOGGER, "", (logger.name, SET, "INFO"))[0] == INVALID_REQUEST
    assert node.describe(LOGGER, "").error_code == INVALID_REQUEST
    assert (logger.read_only, logger.config_source, logger.synonyms) == (False, 6, ())
