"""Layers, typed values, mistakes: `Settings` as the broker uses it."""

from __future__ import annotations

import logging

import pytest

from headwater.broker.settings import BadValue, SettingError, Settings, Source, broker_definitions
from headwater.broker.settings.definitions import parse, render
from headwater.errors import HeadwaterError


def _problems(given: dict[str, object]) -> list[str]:
    with pytest.raises(SettingError) as caught:
        Settings.parse(given)
    assert str(caught.value) == "\n".join(caught.value.problems)
    assert isinstance(caught.value, HeadwaterError)
    return caught.value.problems


def test_values_have_the_type_of_their_setting():
    settings = Settings.parse(
        {
            "num.partitions": " 4 ",
            "auto.create.topics.enable": "FALSE",
            "log.cleanup.policy": "compact , delete",
            "log.cleaner.min.cleanable.ratio": "0.1",
            "broker.rack": "r1",
        }
    )
    assert settings.get("num.partitions") == 4
    assert settings.get("auto.create.topics.enable") is False
    assert settings.get("log.cleanup.policy") == ["compact", "delete"]
    assert settings.get("log.cleaner.min.cleanable.ratio") == 0.1
    assert settings.get("broker.rack") == "r1"
    assert settings.get("log.retention.ms") is None


def test_values_may_also_be_given_typed():
    settings = Settings(
        {
            "num.partitions": 4,
            "auto.create.topics.enable": False,
            "log.cleanup.policy": ["compact", "delete"],
        }
    )
    assert settings.get("num.partitions") == 4
    assert settings.get("auto.create.topics.enable") is False
    assert settings.get("log.cleanup.policy") == ["compact", "delete"]


def test_every_default_is_a_value_that_its_setting_accepts():
    for definition in broker_definitions():
        if definition.default is not None:
            assert parse(definition, render(definition.default) or "") == definition.default


def test_an_unknown_name_is_an_error_that_suggests_the_nearest():
    assert _problems({"num.partitons": "2"}) == [
        "Unknown setting num.partitons: did you mean num.partitions?"
    ]
    assert _problems({"NUM_PARTITIONS": "2"}) == [
        "Unknown setting NUM_PARTITIONS: did you mean num.partitions?"
    ]
    assert _problems({"xyzzy": "2"}) == ["Unknown setting xyzzy."]


def test_a_topics_config_is_not_a_setting_of_the_broker():
    assert _problems({"retention.ms": "2", "remote.log.copy.disable": "true"}) == [
        "retention.ms is a topic's config, not the broker's: "
        "its default for all topics is log.retention.ms.",
        "remote.log.copy.disable is a topic's config, not the broker's.",
    ]


def test_all_problems_are_listed_at_once():
    problems = _problems(
        {"num.partitions": "many", "log.retention.hours": "0", "listeners": "", "nod.id": 1}
    )
    assert problems == [
        "Invalid value many for configuration num.partitions: Not a number of type INT.",
        "Invalid value 0 for configuration log.retention.hours: "
        "log.retention.hours must be unlimited (-1) or, greater than or equal to 1.",
        "Invalid value  for configuration listeners: At least one listener is needed.",
        "Unknown setting nod.id: did you mean node.id?",
    ]


def test_settings_that_contradict_each_other_are_an_error():
    assert _problems({"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": 8}) == [
        "group.min.session.timeout.ms (9) must not be more than group.max.session.timeout.ms (8)."
    ]


def test_broker_id_stands_in_for_node_id():
    assert Settings({"broker.id": "5"}).get("node.id") == 5
    assert Settings({"broker.id": "5", "node.id": "5"}).get("node.id") == 5
    assert Settings().get("node.id") == 1
    assert len(_problems({"broker.id": "5", "node.id": "6"})) == 1


def test_stronger_layers_win_and_say_so():
    settings = Settings({"message.max.bytes": 10, "node.id": 3})
    settings.set_dynamic("", {"message.max.bytes": "20"})
    assert (settings.get("message.max.bytes"), settings.source("message.max.bytes")) == (20, 3)
    settings.set_dynamic("3", {"message.max.bytes": "30"})
    assert (settings.get("message.max.bytes"), settings.source("message.max.bytes")) == (30, 2)
    assert [(s.source, s.value) for s in settings.explain("message.max.bytes")] == [
        (Source.DYNAMIC_BROKER, 30),
        (Source.DYNAMIC_DEFAULT, 20),
        (Source.STATIC, 10),
        (Source.DEFAULT, 1_048_588),
    ]
    settings.set_dynamic("3", {})
    settings.set_dynamic("", {})
    assert (settings.get("message.max.bytes"), settings.source("message.max.bytes")) == (10, 4)


def test_another_nodes_settings_are_kept_but_not_used():
    settings = Settings()
    assert settings.set_dynamic("2", {"message.max.bytes": "30"}) == set()
    assert settings.get("message.max.bytes") == 1_048_588
    assert settings.dynamic("2") == {"message.max.bytes": "30"}


def test_listeners_hear_of_a_change_once_and_only_of_a_change():
    settings, heard = Settings(), []
    settings.on_change("max.connections", heard.append)
    settings.on_change("message.max.bytes", lambda value: heard.append(("bytes", value)))
    assert settings.set_dynamic("", {"max.connections": "7"}) == {"max.connections"}
    settings.set_dynamic("", {"max.connections": "7"})
    settings.set_dynamic("1", {"max.connections": "7"})
    settings.set_dynamic("", {})
    assert heard == [7]
    settings.set_dynamic("1", {})
    assert heard == [7, 2**31 - 1]


def test_an_old_data_directory_does_not_keep_the_broker_from_starting(caplog):
    settings = Settings()
    with caplog.at_level(logging.WARNING):
        settings.set_dynamic("", {"gone.setting": "1", "max.connections": "x", "log.roll.ms": "5"})
    assert settings.dynamic("") == {"log.roll.ms": "5"}
    assert [record.args[0] for record in caplog.records] == ["gone.setting", "max.connections"]


def test_a_dynamic_layer_is_checked_as_a_whole_before_it_is_written():
    settings = Settings({"log.cleaner.max.compaction.lag.ms": "100"})
    settings.check_dynamic("", {"log.cleaner.min.compaction.lag.ms": "100"})
    with pytest.raises(BadValue, match=r"\(101\) must not be more than .* \(100\)"):
        settings.check_dynamic("", {"log.cleaner.min.compaction.lag.ms": "101"})
    with pytest.raises(BadValue, match="Not a number of type LONG"):
        settings.check_dynamic("", {"log.roll.ms": "x"})


def test_a_name_that_no_table_has_is_our_own_mistake():
    with pytest.raises(KeyError):
        Settings().get("num.partitons")
    with pytest.raises(AssertionError):
        Settings().on_change("num.partitons", print)
