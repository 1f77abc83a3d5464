"""The bridges as the contract has them, and as they run: datagrams in, records and dead letters out."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any
from urllib.request import urlopen

import pytest

from headwater.browse.pages import page
from headwater.client.errors import NotThere
from headwater.client.log import Log
from headwater.edges.bridges.config import check
from headwater.edges.udp.bridge import Datagrams
from headwater.project.ports import free_port
from headwater.testing import bridges as contract
from tests.edges.running import edges, until


@pytest.fixture
def sender() -> Iterator[socket.socket]:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as made:
        yield made


class TestDatagrams(contract.InboundConformance):
    CARRIES = (b"", bytes(range(256)), b"x" * 60_000)

    @pytest.fixture
    def port(self) -> int:
        return free_port()

    @pytest.fixture
    def make(self, port: int) -> Callable[[], Datagrams]:
        return lambda: Datagrams(contract.bridge_end(f"udp://127.0.0.1:{port}", Datagrams))

    @pytest.fixture
    def tell(self, port: int, sender: socket.socket) -> contract.Tell:
        async def tell(values: Sequence[bytes]) -> None:
            for value in values:
                sender.sendto(value, ("127.0.0.1", port))

        return tell


def test_a_port_that_is_taken_is_told_in_a_sentence(sender: socket.socket):
    sender.bind(("127.0.0.1", 0))
    port = sender.getsockname()[1]
    bridge = Datagrams(contract.bridge_end(f"udp://127.0.0.1:{port}", Datagrams))
    assert "cannot listen on" in str(contract.fails_with_a_sentence(bridge))


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"from": "udp://0.0.0.0:9"}, "allow_from"),
        ({"from": "udp://127.0.0.1"}, "HOST:PORT"),
        ({"from": "udp://127.0.0.1:9", "key": "colour"}, "sender"),
        ({"from": "udp://127.0.0.1:9", "inbox_bytes": 5}, "65536"),
        ({"from": "statsd://127.0.0.1", "key": "sender"}, "no setting 'key'"),
        ({"from": "statsd://127.0.0.1", "receive_buffer_bytes": 0}, "65536"),
    ],
)
def test_a_section_that_cannot_be_used_is_refused(section: dict[str, Any], said: str):
    assert any(said in each for each in check("b", {**section, "to": "topic:t"}))


def test_sections_that_can_be_used_are_not():
    assert check("b", {"from": "statsd://127.0.0.1", "to": "topic:t"}) == []
    open_to_all = {"from": "udp://0.0.0.0:9", "allow_from": ["0.0.0.0/0"], "key": "sender"}
    assert check("b", {**open_to_all, "to": "topic:t"}) == []


async def test_the_sender_can_be_the_key(sender: socket.socket):
    bridge = Datagrams(contract.bridge_end("udp://127.0.0.1:0", Datagrams, {"key": "sender"}))
    async with asyncio.timeout(60), bridge:
        host, _, port = str(bridge.status()["listens"]).partition(":")
        sender.sendto(b"21.5", (host, int(port)))
        (message,) = await bridge.receive()
    assert (message.key, message.value) == (b"127.0.0.1", b"21.5")


def records(log: Log, topic: str, count: int) -> list[Any]:
    def found() -> list[Any]:
        try:
            seen = page(log, topic, limit=1000).records
        except NotThere:  # a topic of dead letters is made with the first of them
            return []
        return seen if len(seen) >= count else []

    return list(until(found, f"{count} records in {topic}"))


def test_lines_become_records_and_the_rest_dead_letters(
    log: Log, topic: Callable[..., str], sender: socket.socket
):
    name = topic()
    bridge = {"from": "statsd://127.0.0.1:0", "to": f"topic:{name}"}
    with edges(log.bootstrap, {"bridges": {"metrics": bridge}}) as running:
        state = running.context.status.of("bridges.metrics")
        listens = until(lambda: state.as_json().get("listens"), "the bridge")
        place = (listens.partition(":")[0], int(listens.partition(":")[2]))
        sender.sendto(b"a.b:1:2|c|#env:prod\nnonsense\nfuel:+0.5|g", place)
        sender.sendto(b"t:320|ms|@0.1", place)
        found = records(log, name, 4)
        letters = records(log, f"{name}.dead-letters", 1)
        shown = state.as_json()
        with urlopen(f"{running.url}/metrics") as answer:
            metrics = answer.read().decode()
    values = [json.loads(each.value) for each in found]
    assert [each.key for each in found] == [b"a.b", b"a.b", b"fuel", b"t"]
    assert [each["value"] for each in values] == [1, 2, 0.5, 320]
    assert values[0]["tags"] == {"env": "prod"}
    assert values[2]["change"] is True and values[3]["rate"] == 0.1
    assert letters[0].value == b"nonsense"
    headers = dict(letters[0].headers)
    assert b"NAME:VALUE|TYPE" in (headers["__dlq.errors.message"] or b"")
    assert headers["udp-sender"] == b"127.0.0.1"
    assert (shown["datagrams"], shown["records"], shown["dead_letters"]) == (2, 4, 1)
    assert shown["dropped_by_kernel"] in (0, "unknown") and shown["dropped_by_inbox"] == 0
    assert 'headwater_udp_datagrams_total{bridge="metrics"}' in metrics
