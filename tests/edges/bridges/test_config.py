"""[edges.bridges.NAME]: what is taken, and what every mistake is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headwater.edges.bridges.addresses import Address, BadAddress, filled, parsed
from headwater.edges.bridges.amqp import Exchange, Queue
from headwater.edges.bridges.config import (
    INBOUND,
    OUTBOUND,
    BadBridge,
    NoSuchBridge,
    check,
    inbound,
    outbound,
    read,
)
from headwater.edges.bridges.contract import Bridge, End, Inbound, Outbound
from headwater.edges.bridges.mqtt import Subscription
from headwater.secrets import MissingSecret
from headwater.testing.bridges import record
from tests.edges.bridges import toy
from tests.installs.packages import install

IN = {"from": "mqtt://broker/sensors/#", "to": "topic:readings"}
OUT = {"from": "topic:orders", "to": "amqp://broker/shop"}


def test_a_section_names_a_topic_and_another_world():
    config = read("sensors", {**IN, "key": "none", "once": "message-id"})
    assert (config.topic, config.kind, config.is_once) == ("readings", Subscription, True)
    assert config.is_inbound and config.way == "mqtt" and config.group == "headwater.bridge.sensors"
    assert config.end.options["key"] == "none" and config.end.options["qos"] == 1
    config = read("out", {**OUT, "start": "end"})
    assert (config.topic, config.kind, config.start) == ("orders", Exchange, "end")
    assert not config.is_inbound


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({}, "lacks from"),
        ({"from": "topic:a", "to": "topic:b"}, "two ends"),
        ({"from": "mqtt://b/x", "to": "mqtt://b/y"}, "two ends"),
        ({**IN, "to": "topic:a b"}, "no name of a topic"),
        ({**IN, "from": "carrier-pigeon://loft"}, "no bridge goes from carrier-pigeon://"),
        ({**IN, "from": "zmq+push://host:1"}, "no bridge goes from zmq+push://"),
        ({**IN, "from": "no.such.module:Bridge"}, "cannot be imported"),
        ({**IN, "from": "headwater.edges.bridges.amqp:Exchange"}, "is no class made from"),
        ({**IN, "qoss": 1}, "did you mean 'qos'"),
        ({**IN, "qos": "1"}, "qos = '1' is not of the kind of 1"),
        ({**IN, "qos": True}, "qos = True is not of the kind of 1"),
        ({**IN, "qos": 2}, "qos = 2 is not 0 or 1 in this direction"),
        ({**IN, "key": "payload"}, "neither"),
        ({**IN, "version": "4"}, "version = '4'"),
        ({**IN, "session_hours": -1}, "session_hours"),
        ({**IN, "from": "mqtt://broker"}, "names no MQTT topic"),
        ({**IN, "from": "mqtt://:1883/a"}, "names no host"),
        ({**IN, "from": "mqtt://host:port/a"}, "has a port"),
        ({**IN, "once": "yes"}, "the only way is"),
        ({**IN, "start": "end"}, "has no setting 'start'"),
        ({**OUT, "once": "message-id"}, "has no setting 'once'"),
        ({**OUT, "start": "middle"}, "neither"),
        ({"from": "amqp://host/", "to": "topic:a"}, "names no queue"),
        ({"from": "amqp://host/", "to": "topic:a", "queue": "q", "bind": ["e:k"]}, "declare"),
        ({"from": "amqp://host/", "to": "topic:a", "queue": "q", "prefetch": 0}, "prefetch"),
        ({"from": "amqp://host/", "to": "topic:a", "queue": "q", "key": "x"}, "none of"),
        ({"from": "amqp://", "to": "topic:a", "queue": "q"}, "names no host"),
        ({"from": "zmq+sub://host", "to": "topic:a"}, "names neither host:port"),
        ({"from": "zmq+sub://host:1", "to": "topic:a", "subscribe": []}, "subscribe"),
        ({"from": "zmq+pull://host:1", "to": "topic:a", "high_water_mark": 0}, "high_water_mark"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(section: Mapping[str, Any], said: str):
    assert any(said in each for each in check("name", section)), check("name", section)
    with pytest.raises(BadBridge):
        read("name", section)


def test_all_mistakes_of_a_section_are_told_at_once():
    assert len(check("a name", {**IN, "qoss": 1, "key": 7, "once": "always"})) == 4


def test_every_scheme_means_a_class_that_says_what_it_loses_and_has_good_defaults():
    for way, schemes, found in (
        (Inbound, INBOUND, inbound),
        (Outbound, OUTBOUND, outbound),
    ):
        for scheme in schemes:
            kind: type[Bridge] = found(f"{scheme}://x")
            assert issubclass(kind, way) and kind.LOSES


def test_an_installed_package_may_offer_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    offers = {"headwater.bridges.in": {"rain": "tests.edges.bridges.toy:Tap"}}
    monkeypatch.syspath_prepend(str(install(tmp_path, "headwater-rain", {}, offers)))
    assert inbound("rain://roof") is toy.Tap
    with pytest.raises(NoSuchBridge, match="no bridge goes to rain://") as raised:
        outbound("rain://roof")
    assert (raised.value.hint or "").startswith("write one of amqp://, ")


def test_secrets_are_filled_in_when_the_bridge_is_opened(monkeypatch: pytest.MonkeyPatch):
    section = {**OUT, "to": "amqp://app:${RABBIT_SECRET}@${RABBIT_HOST}:${RABBIT_PORT}/shop"}
    assert check("out", section) == []
    config = read("out", section)
    assert "secret" not in repr(config).lower().replace("${rabbit_secret}", "")
    with pytest.raises(MissingSecret, match="RABBIT_SECRET"):
        config.opened()
    for name, value in {"SECRET": "p@ss", "HOST": "broker", "PORT": "5673"}.items():
        monkeypatch.setenv(f"RABBIT_{name}", value)
    assert config.opened().end.address == "amqp://app:p@ss@broker:5673/shop"


def test_an_address_is_shown_without_its_login():
    shown = {
        "mqtt://u:secret@host:1/a/#": "mqtt://host:1/a/#",
        "amqp://u:p@ss@host/v": "amqp://host/v",
        "zmq+pull:///run/a@b": "zmq+pull:///run/a@b",
        "module:Class": "module:Class",
    }
    for address, expected in shown.items():
        assert End("b", address).shown == expected
    (said,) = check("in", {"from": "mqtt://u:secret@host", "to": "topic:a"})
    assert "secret" not in said


def test_an_address_is_taken_apart_as_it_is_written():
    assert parsed("broker", 1883) == Address("broker", 1883, "", "", "")
    assert parsed("u:p%40@b:1/a/+/#?", 0) == Address("b", 1, "u", "p@", "a/+/#?")
    assert parsed("u@[::1]:99/x", 0) == Address("::1", 99, "u", "", "x")
    for bad in ("", "/path", "host:0", "host:99999", "host:x"):
        with pytest.raises(BadAddress):
            parsed(bad, 1)


def test_a_template_is_filled_from_the_record():
    assert filled("a/{key}/{topic}", record(1, key=b"{topic}")) == "a/{topic}/test"
    assert filled("plain", record(1, key=b"\xff")) == "plain"
    with pytest.raises(UnicodeDecodeError):
        filled("{key}", record(1, key=b"\xff"))


def test_a_queue_may_be_declared_and_bound_by_the_bridge():
    section = {"from": "amqp://h/", "to": "topic:a", "queue": "q", "declare": True, "bind": ["e:#"]}
    assert check("in", section) == [] and read("in", section).kind is Queue
