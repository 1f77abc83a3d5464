"""`headwater settings` lists what the broker knows, with nothing left out."""

from __future__ import annotations

from headwater.broker.settings.topic import TOPIC
from headwater.broker.settings.values import BROKER
from tests.broker.serving import serving


def test_every_setting_has_a_default_and_a_line_of_words(headwater):
    listed = headwater("settings", "--json").json()
    assert {e["name"] for e in listed if e["scope"] == "broker"} == set(BROKER)
    assert {e["name"] for e in listed if e["scope"] == "topic"} == set(TOPIC)
    assert all(entry["doc"] and "default" in entry for entry in listed)


def test_a_part_of_a_name_narrows_the_list(headwater):
    ran = headwater("settings", "num.partitions")
    assert ran.code == 0
    assert "  num.partitions = 1\n" in ran.out
    assert "retention" not in ran.out


def test_a_part_that_no_name_has_is_an_error(headwater):
    ran = headwater("settings", "no.such")
    assert ran.code == 1
    assert ran.err == (
        "headwater: no setting has 'no.such' in its name; headwater settings lists them all\n"
    )


def test_a_setting_that_locks_everybody_out_is_taken_back_on_the_folder(headwater, tmp_path):
    data = tmp_path / "data"
    with serving(data) as broker, broker.wire() as wire:
        wire.ask("api_versions", 0)
        broker.run(broker.broker.catalogue.set_broker_configs("", {"max.connections": "1"}))
        broker.run(broker.broker.catalogue.set_broker_configs("1", {"num.partitions": "3"}))
    ran = headwater("settings", "--data", data)
    assert ran.out == "max.connections = 1\nnum.partitions = 3 (node 1)\n"
    assert headwater("settings", "--data", data, "--unset", "max.connections").code == 0
    (left,) = headwater("settings", "--data", data, "--json").json()
    assert left == {"node": "1", "name": "num.partitions", "value": "3"}
    with serving(data) as broker, broker.wire() as first, broker.wire() as second:
        assert first.ask("metadata", 12, topics=None).brokers
        assert second.ask("metadata", 12, topics=None).brokers
    missing = headwater("settings", "--data", data, "--unset", "max.connections")
    assert missing.code == 1
    assert "was not changed while the broker ran" in missing.err


def test_a_folder_that_is_no_brokers_is_not_made_one(headwater, tmp_path):
    folder = tmp_path / "empty"
    folder.mkdir()
    assert headwater("settings", "--data", folder).code == 1
    assert not list(folder.iterdir())
