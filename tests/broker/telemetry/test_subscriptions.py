"""Which client is to push what."""

from __future__ import annotations

from headwater.broker.telemetry.subscriptions import read, wanted

CLIENT = {"client_id": "shop-1", "client_software_name": "librdkafka"}


def test_all_subscriptions_that_match_count():
    found = read(
        {
            "a": {"metrics": "org.a,org.b", "interval.ms": "5000"},
            "b": {"metrics": "org.c", "interval.ms": "1000", "match": "client_id=shop-.*"},
            "c": {"metrics": "org.d", "interval.ms": "100", "match": "client_id=bank-.*"},
        }
    )
    assert wanted(found, CLIENT)[1:] == (1000, ["org.a", "org.b", "org.c"])


def test_a_star_is_everything_and_nothing_is_nothing():
    assert wanted(read({"a": {"metrics": "*,x"}}), CLIENT).metrics == [""]
    assert wanted(read({"a": {"interval.ms": "100"}}), CLIENT)[1:] == (300_000, [])
    assert wanted({}, CLIENT)[1:] == (300_000, [])


def test_every_selector_must_match_the_whole():
    one = read({"a": {"metrics": "*", "match": "client_id=shop,client_software_name=lib.*"}})
    assert wanted(one, CLIENT).metrics == []
    two = read({"a": {"metrics": "*", "match": "client_id=shop.*,client_software_name=lib.*"}})
    assert wanted(two, CLIENT).metrics == [""]


def test_the_number_changes_with_what_is_wanted():
    one, two = read({"a": {"metrics": "x"}}), read({"a": {"metrics": "y"}})
    assert wanted(one, CLIENT).number != wanted(two, CLIENT).number
    assert wanted(one, CLIENT).number == wanted(dict(one), CLIENT).number


def test_no_pattern_keeps_the_broker_busy():
    """Others take years for this one; whoever may alter configs sends it."""
    costly = read({"a": {"metrics": "*", "match": "client_id=(a+)+b"}})
    assert wanted(costly, {"client_id": "a" * 200}).metrics == []
