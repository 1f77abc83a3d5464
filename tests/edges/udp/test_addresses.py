"""Where a UDP bridge listens, and whose datagrams it takes."""

from __future__ import annotations

import pytest

from headwater.edges.udp.addresses import BadAddress, allowing, complaints, networks, place_of


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("127.0.0.1:9999", ("127.0.0.1", 9999)),
        ("127.0.0.1", ("127.0.0.1", 8125)),
        ("[::1]:53", ("::1", 53)),
        ("[::1]", ("::1", 8125)),
        ("localhost:0/", ("localhost", 0)),
    ],
)
def test_a_place_is_a_host_and_a_port(written: str, place: tuple[str, int]):
    assert place_of(written, 8125) == place


@pytest.mark.parametrize("written", ["", ":1", "host:x", "host:70000", "host"])
def test_what_is_no_place_is_refused(written: str):
    with pytest.raises(BadAddress, match="HOST:PORT"):
        place_of(written)


def test_beyond_loopback_it_must_be_said_who_may_send():
    assert complaints("127.0.0.1", []) == complaints("::1", []) == complaints("localhost", []) == []
    assert complaints("0.0.0.0", ["10.0.0.0/8"]) == []
    (said,) = complaints("0.0.0.0", [])
    assert "allow_from" in said
    assert len(complaints("sensors.example", [])) == 1


@pytest.mark.parametrize("written", ["10.0.0.0/8", ["10.0.0.1/8"], ["nowhere"], [7.5], 5])
def test_what_is_no_list_of_networks_is_refused(written: object):
    (said,) = complaints("0.0.0.0", written)
    assert said.startswith("allow_from")


def test_senders_are_known_by_their_network():
    may = allowing(networks(["10.1.0.0/16", "fd00::/8"]))
    assert may is not None
    assert may("10.1.2.3") and may("fd00::7") and may("::ffff:10.1.9.9")
    assert not may("10.2.0.1") and not may("fe80::1%lo")
    assert allowing(networks([])) is None
    assert allowing(networks(["0.0.0.0/0", "::/0"])) is None
