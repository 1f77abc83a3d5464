"""Who waits for one thread waits in a line of its own: senders take turns, and lines end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from headwater.client.log import Log
from headwater.client.publisher import Draft
from headwater.edges.bulk import Bulk
from headwater.edges.caller import SENDER
from headwater.edges.errors import Overloaded
from headwater.edges.idempotency.requests import (
    GROUP_BATCHES_MAX,
    Appended,
    Queue,
    Request,
    Waiting,
)
from headwater.edges.turns import Turns
from tests.edges.http.reading import values
from tests.edges.running import Running, until
from tests.edges.test_sharing import GREEDY, OTHER, bearer, sent
from tests.edges.test_strangers import two_tokens

Make = Callable[..., str]
MANY = 300


def test_senders_are_served_in_turn_and_each_has_a_line_that_ends():
    turns: Turns[str] = Turns(waiting_max=3)
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        turns.put(item[0], item)
    with pytest.raises(Overloaded):
        turns.put("a", "a4")
    turns.put("d", "d1")
    assert not turns.discard("a", "a9") and turns.discard("d", "d1")
    found = [turns.take(turns.senders()[0]) for _ in range(4)]
    assert found == ["a1", "b1", "c1", "a2"]
    turns.put_back("b", ["b0", "b1"])
    assert [turns.take(turns.senders()[0]) for _ in range(4)] == ["b0", "a3", "b1", "b2"]
    assert not turns


def waiting(
    loop: asyncio.AbstractEventLoop,
    sender: str,
    key: str,
    batch_bytes_max: int = 1024**2,
    records: int = 1,
) -> Waiting:
    draft = Draft(None, bytes(1000 // records))
    size = draft.batch_bytes * records
    request = Request("t", key.encode(), "", [draft] * records, size, [0], batch_bytes_max)
    future: asyncio.Future[Appended] = loop.create_future()
    return Waiting(request, future, sender)


def keys(group: Sequence[Waiting]) -> list[str]:
    return [each.request.key.decode() for each in group]


async def test_a_group_has_one_of_each_sender_before_a_second_of_any():
    loop, queue = asyncio.get_running_loop(), Queue()
    for number in range(GROUP_BATCHES_MAX * 2):
        queue.put(waiting(loop, "greedy", f"g{number}", 1100))
    for number in range(3):
        queue.put(waiting(loop, f"other {number}", f"o{number}", 1100))
    group = keys(queue.next_group())
    assert group[:4] == ["g0", "o0", "o1", "o2"] and len(group) == GROUP_BATCHES_MAX
    assert group[4:] == [f"g{number}" for number in range(1, GROUP_BATCHES_MAX - 3)]


async def test_a_group_is_soon_written_however_much_waits():
    """Of forty clients of one sender a group had 50,000 records, and each other's request waited for two."""
    loop, queue = asyncio.get_running_loop(), Queue()
    for number in range(400):
        queue.put(waiting(loop, "greedy", f"g{number}", records=200))
    assert len(queue.next_group()) * 200 <= 5_000
    queue.put(waiting(loop, "other", "o"))
    assert keys(queue.next_group())[1] == "o"
    queue.put(waiting(loop, "large", "l", records=50_000))
    while "l" not in (found := keys(queue.next_group())):
        assert found
    assert found == ["l"]


async def test_the_same_key_again_waits_and_holds_up_its_own_sender_only():
    loop, queue = asyncio.get_running_loop(), Queue()
    for sender, key in (("a", "same"), ("a", "same"), ("a", "next"), ("b", "b1"), ("b", "b2")):
        queue.put(waiting(loop, sender, key))
    assert keys(queue.next_group()) == ["same", "b1", "b2"]
    assert keys(queue.next_group()) == ["same", "next"]


async def test_after_a_failure_others_have_their_turn_and_the_one_to_blame_is_found():
    """
    g0 g1 g2 g3 o0      aborted
    g0 g1 g2 g3         by themselves: aborted again
    o0
    late                of somebody who came meanwhile
    g0 g1               halves
    g2 g3
    """
    loop, queue = asyncio.get_running_loop(), Queue()
    for number in range(4):
        queue.put(waiting(loop, "greedy", f"g{number}"))
    queue.put(waiting(loop, "other", "o0"))
    queue.put_back(queue.next_group())
    first = queue.next_group()
    queue.put(waiting(loop, "late", "late"))
    queue.put_back(first)
    assert keys(first) == ["g0", "g1", "g2", "g3"]
    assert [keys(queue.next_group()) for _ in range(5)] == [
        ["o0"],
        ["late"],
        ["g0", "g1"],
        ["g2", "g3"],
        [],
    ]


async def test_of_who_has_gone_nothing_is_put_back():
    loop, queue = asyncio.get_running_loop(), Queue()
    for key in ("a1", "a2"):
        queue.put(waiting(loop, "a", key))
    group = queue.next_group()
    group[0].future.cancel()
    queue.put_back(group)
    assert keys(queue.next_group()) == ["a2"]


class Halted:
    """The thread that writes what has a key, until it may go on."""

    def __init__(self, running: Running) -> None:
        self.go_on, self.groups = threading.Event(), list[list[bytes]]()
        self._writer, self._known = running.context.once._writer, running.context.once._writer.write
        self._writer.write = self.write  # type: ignore[method-assign]

    def write(self, group: Sequence[Request]) -> Any:
        self.groups.append([each.key for each in group])
        assert self.go_on.wait(120)
        return self._known(group)


def posted(running: Running, topic: str, key: str, body: str = "1") -> str:
    url = httpx.URL(running.url)
    return (
        f"POST /topics/{topic} HTTP/1.1\r\nHost: {url.host}\r\nAuthorization: Bearer {GREEDY}\r\n"
        f"Idempotency-Key: {key}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    )


def lines(running: Running) -> dict[str, int]:
    """How many of each sender wait."""
    found = running.context.once._waiting._turns._lines
    return {sender: len(line) for sender, line in found.items()}


def test_many_requests_under_one_key_hold_up_nobody_elses(log: Log, topic: Make):
    name, other = topic(), topic()
    with two_tokens(log) as running, ExitStack() as stack:
        halted = Halted(running)
        stack.callback(halted.go_on.set)
        for _ in range(MANY):
            stack.enter_context(sent(running, posted(running, name, "same")))
        until(lambda: lines(running).get("token greedy", 0) >= MANY - 1, "the greedy one's line")
        mine = {**bearer(OTHER), "Idempotency-Key": "mine"}
        pool = stack.enter_context(ThreadPoolExecutor(1))
        url = f"{running.url}/topics/{other}"
        asked = pool.submit(httpx.post, url, content=b"1", headers=mine, timeout=60)
        until(lambda: lines(running).get("token other", 0) == 1, "the other one's line")
        halted.go_on.set()
        answer = asked.result()
        assert answer.status_code == 200, answer.text
        place = next(
            n for n, group in enumerate(halted.groups) if any(b"mine" in key for key in group)
        )
        assert place < 3, "it waited for those of the greedy one"


def test_of_clients_that_have_gone_nothing_is_written(log: Log, topic: Make):
    name = topic()
    with two_tokens(log) as running:
        halted = Halted(running)
        with ExitStack() as stack:
            stack.callback(halted.go_on.set)
            with ExitStack() as clients:
                for number in range(MANY):
                    clients.enter_context(sent(running, posted(running, name, f"k{number}")))
                    if not number:
                        until(lambda: _taken(halted) == 1, "the first to be under way")
                held = "the first is under way, the others wait"
                until(lambda: sum(lines(running).values()) + _taken(halted) == MANY, held)
            until(lambda: not lines(running), "those that have gone have left the queue")
        taken = _taken(halted)
        mine = {**bearer(GREEDY), "Idempotency-Key": "last"}
        answer = httpx.post(f"{running.url}/topics/{name}", content=b"2", headers=mine, timeout=60)
        assert answer.status_code == 200, answer.text
        assert taken < MANY
        assert values(log, name) == [b"1"] * taken + [b"2"]


def _taken(halted: Halted) -> int:
    return sum(map(len, halted.groups))


async def test_calls_in_bulk_take_turns_and_who_gives_up_is_not_sent(log: Log, topic: Make):
    name, go_on, bulk = topic(), threading.Event(), Bulk(log)
    rounds: list[list[str]] = []
    known = bulk._sending.send_next

    def send_next(calls: Sequence[Any]) -> None:
        rounds.append([call.values[0].decode()[:7] for call in calls])
        assert go_on.wait(60)
        known(calls)

    bulk._sending.send_next = send_next  # type: ignore[method-assign]

    async def append(sender: str, number: int) -> object:
        SENDER.set(sender)
        return await bulk.append(name, [b"%s %d" % (sender.encode(), number) + bytes(5_000_000)])

    greedy = [asyncio.create_task(append("greed", number)) for number in range(9)]
    other = asyncio.create_task(append("other", 0))
    while not rounds:
        await asyncio.sleep(0)
    gone = greedy.pop()
    gone.cancel()
    go_on.set()
    found = await asyncio.gather(*greedy, other, gone, return_exceptions=True)
    await bulk.close()
    assert isinstance(found[-1], asyncio.CancelledError)
    assert rounds[0] == ["greed 0", "other 0", "greed 1", "greed 2"], "up to a bound"
    assert {each for some in rounds for each in some} == {
        "other 0",
        *map("greed {}".format, range(8)),
    }
