"""`headwater settings` lists what the broker knows, with nothing left out."""

from __future__ import annotations

from headwater.broker.settings.topic import TOPIC
from headwater.broker.settings.values import BROKER


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
