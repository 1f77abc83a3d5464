"""The bridges as the contract has them, and as they run: from topic to topic over a group, with a kill."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headwater.browse.pages import page
from headwater.client.log import Log
from headwater.client.publisher import Draft, Sender
from headwater.edges.bridges.config import check
from headwater.edges.multicast.bridge import Listener, Speaker
from headwater.edges.multicast.resumption import SEQUENCE, SESSION, place_of
from headwater.project.ports import free_port
from headwater.testing import bridges as contract
from tests.edges.multicast.sending import multicast_or_skip
from tests.edges.running import edges, process, until

GROUP = "239.255.77.2"
CARRIED = (bytes(range(256)), b"x" * 60_000)
"""A packet holds 65,507 bytes at most."""


@pytest.fixture(autouse=True, scope="module")
def _possible() -> None:
    multicast_or_skip()


@pytest.fixture
def address() -> str:
    return f"multicast://{GROUP}:{free_port()}"


async def spoken(address: str, values: Sequence[bytes]) -> None:
    async with Speaker(contract.bridge_end(address, Speaker)) as speaker:
        await speaker.send([contract.record(n, value) for n, value in enumerate(values)])


class TestListener(contract.InboundConformance):
    CARRIES = (b"", *CARRIED)

    @pytest.fixture
    def make(self, address: str) -> Callable[[], Listener]:
        return lambda: Listener(contract.bridge_end(address, Listener, {"silence_seconds": 60.0}))

    @pytest.fixture
    def tell(self, address: str) -> contract.Tell:
        async def tell(values: Sequence[bytes]) -> None:
            await spoken(address, values)

        return tell


class TestSpeaker(contract.OutboundConformance):
    CARRIES = CARRIED

    @pytest.fixture
    def make(self, address: str) -> Callable[[], Speaker]:
        return lambda: Speaker(contract.bridge_end(address, Speaker))

    @pytest.fixture
    def got(self, address: str) -> contract.Got:
        """A listener that stays until its event loop ends with the test."""
        heard: list[Listener] = []
        values: list[bytes] = []

        async def got(count: int) -> Sequence[bytes]:
            if not heard:
                heard.append(
                    Listener(contract.bridge_end(address, Listener, {"silence_seconds": 60.0}))
                )
                await heard[0].open()
            while len(values) < count:
                found = await heard[0].receive()
                values.extend(each.value or b"" for each in found if not each.beside)
            if count:
                await heard[0].close()
            return values[:count]

        return got


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"from": "multicast://10.0.0.1:5004"}, "239"),
        ({"from": "multicast://group:5004"}, "in numbers"),
        ({"from": "multicast://239.1.2.3"}, "HOST:PORT"),
        ({"from": "multicast://239.1.2.3:5004", "interface": "10.1.0.4"}, "secret"),
        ({"from": "multicast://239.1.2.3:5004", "interface": "eth0"}, "in numbers"),
        ({"from": "multicast://239.1.2.3:5004", "silence_seconds": 0}, "silence_seconds"),
        ({"from": "multicast://239.1.2.3:5004", "secret": " "}, "secret is empty"),
    ],
)
def test_a_section_that_cannot_be_used_is_refused(section: dict[str, Any], said: str):
    assert any(said in each for each in check("b", {**section, "to": "topic:t"}))


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"hold_seconds": -1.0}, "hold_seconds"),
        ({"hold_bytes": 10}, "hold_bytes"),
        ({"ttl": 300}, "ttl"),
        ({"interface": "10.1.0.4", "secret": "s"}, ""),
        ({"interface": "10.1.0.4", "allow_from": ["10.1.0.0/16"]}, ""),
    ],
)
def test_a_section_out_is_checked_too(section: dict[str, Any], said: str):
    address = {"from": "topic:t", "to": "multicast://239.1.2.3:5004"}
    found = check("b", {**address, **section})
    assert any(said in each for each in found) if said else found == []


def test_an_interface_that_is_not_ours_is_told_in_a_sentence(address: str):
    options = {"interface": "192.0.2.1", "secret": "x"}
    for kind in (Speaker, Listener):
        bridge = kind(contract.bridge_end(address, kind, options))
        assert "192.0.2.1" in str(contract.fails_with_a_sentence(bridge))


def put(log: Log, topic: str, first: int, count: int) -> None:
    failed: list[object] = []
    with Sender(log, topic, lambda tag, why: failed.append((tag, why))) as sender:
        for number in range(first, first + count):
            headers = [("n", b"%d" % number), (SESSION, b"old"), (SEQUENCE, b"9")]
            sender.send(Draft(b"k%d" % (number % 7), b"%d" % number, headers, partition=0), number)
    assert failed == []


def records(log: Log, topic: str) -> list[Any]:
    return page(log, topic, limit=10_000).records


def test_a_topic_goes_to_a_group_and_into_another_topic(
    log: Log, topic: Callable[..., str], address: str
):
    source, target = topic(), topic()
    sections = {
        "out": {"from": f"topic:{source}", "to": address, "secret": "s", "start": "beginning"},
        "in": {"from": address, "to": f"topic:{target}", "secret": "s", "silence_seconds": 60.0},
    }
    with edges(log.bootstrap, {"bridges": sections}) as running:
        listens = running.context.status.of("bridges.in")
        until(lambda: "sessions" in listens.as_json(), "the listener")
        put(log, source, 0, 300)
        found = until(lambda: len(r := records(log, target)) >= 300 and r, "300 records")
        shown = listens.as_json()
    assert [each.value for each in found] == [b"%d" % number for number in range(300)]
    assert [each.key for each in found[:8]] == [b"k%d" % (n % 7) for n in range(8)]
    assert {dict(each.headers)["n"] for each in found} == {each.value for each in found}
    originals = records(log, source)
    assert [each.timestamp_ms for each in found] == [each.timestamp_ms for each in originals]
    places = [place_of(each.headers) for each in found]
    assert [place.sequence for place in places if place] == list(range(1, 301))
    (joined,) = records(log, f"{target}.gaps")
    assert json.loads(joined.value)["first"] == 1
    assert (shown["lost"], shown["missing"]) == (0, 0)


def test_a_receiver_that_is_killed_goes_on_without_loss_or_repetition(
    log: Log, topic: Callable[..., str], address: str, tmp_path: Path
):
    source, target = topic(), topic(partitions=3)
    out = {"from": f"topic:{source}", "to": address}
    section = (
        f'[edges.bridges.in]\nfrom = "{address}"\nto = "topic:{target}"\nsilence_seconds = 60.0\n'
    )
    with process(tmp_path, section, log.bootstrap) as receiving:
        until(lambda: b'"sessions"' in _status(receiving.url), "the listener")
        with edges(log.bootstrap, {"bridges": {"whole": out}}):
            put(log, source, 0, 400)
            until(lambda: records(log, target), "the first records")
            receiving.kill()
            put(log, source, 400, 400)
            receiving.start()
            put(log, source, 800, 100)
            until(lambda: _count(log, target) >= 900, "the rest", seconds=90)
    found = [place_of(each.headers) for each in records(log, target)]
    assert sorted(place.sequence for place in found if place) == list(range(1, 901))
    values = sorted(int(each.value) for each in records(log, target))
    assert values == list(range(900))
    assert [json.loads(each.value)["kind"] for each in records(log, f"{target}.gaps")] == ["joined"]


def test_a_sender_that_is_killed_begins_a_new_session_and_leaves_nothing_unsaid(
    log: Log, topic: Callable[..., str], address: str, tmp_path: Path
):
    source, target = topic(), topic()
    into = {"from": address, "to": f"topic:{target}", "silence_seconds": 60.0}
    section = f'[edges.bridges.dies]\nfrom = "topic:{source}"\nto = "{address}"\n'
    with edges(log.bootstrap, {"bridges": {"in": into}}) as running:
        listens = running.context.status.of("bridges.in")
        until(lambda: "sessions" in listens.as_json(), "the listener")
        with process(tmp_path, section, log.bootstrap) as sending:
            # Few enough for any socket's buffer: none is lost on the way.
            put(log, source, 0, 100)
            until(lambda: _count(log, target), "the first records")
            put(log, source, 100, 100)
            sending.kill()
            put(log, source, 200, 50)
            sending.start()
            until(
                lambda: {int(each.value) for each in records(log, target)} >= set(range(250)),
                "all",
            )
    sessions: dict[int, list[int]] = {}
    for each in records(log, target):
        place = place_of(each.headers)
        assert place is not None
        sessions.setdefault(place.session, []).append(place.sequence)
    for sequences in sessions.values():
        assert sequences == list(range(1, len(sequences) + 1))
    told = [json.loads(each.value) for each in records(log, f"{target}.gaps")]
    assert [each["kind"] for each in told] == ["joined", "joined"]
    known = {each["session"] for each in told}
    assert {f"{each:016x}" for each in sessions} == known
    for each in records(log, f"{source}.sessions"):
        assert json.loads(each.value)["session"] in known


def _count(log: Log, topic: str) -> int:
    return sum(end - first for first, end in log.ranges(topic).values())


def _status(url: str) -> bytes:
    from urllib.request import urlopen

    with urlopen(f"{url}/status", timeout=10) as answer:
        return bytes(answer.read())
