"""The tests that every bridge must pass: classes to inherit from, for anybody who writes one.

    from headwater.testing import InboundConformance, bridge_end

    class TestMyBridge(InboundConformance):
        @pytest.fixture
        def make(self, server):
            return lambda: MyBridge(bridge_end("mine://" + server.address))

        @pytest.fixture
        def tell(self, server):
            async def tell(values):                  # the other system has these for the bridge
                await server.publish(values)
            return tell

`make` gives a bridge that is not yet open, all of one test at the same place: a second call stands for
the process that is started after a crash. Tests of what the bridge does not promise (`REDELIVERS`,
`CONFIRMS`) are left out. No log is needed, and no plugin of pytest for asyncio.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from headwater.deprecation import renamed
from headwater.edges.bridges.contract import (
    Bridge,
    End,
    Inbound,
    Message,
    Outbound,
    Record,
    Refusal,
)
from headwater.errors import HeadwaterError

DEADLINE_S = 60.0
QUIET_S = 0.3
"""How long nothing must come, where nothing may; a slow machine makes this test weaker, never red."""
Tell = Callable[[Sequence[bytes]], Awaitable[None]]
Got = Callable[[int], Awaitable[Sequence[bytes]]]


def bridge_end(
    address: str, kind: type[Bridge] | None = None, options: Mapping[str, object] | None = None
) -> End:
    """As headwater.toml would give it: with the defaults of the bridge's class."""
    defaults = kind.OPTIONS if kind is not None else {}
    return End("test", address, {**defaults, **(options or {})}, topic="test")


def record(number: int, value: bytes | None = None, **more: Any) -> Record:
    words = {"key": f"k{number}".encode(), "headers": (), **more}
    return Record("test", 0, number, 1_800_000_000_000 + number, value=value, **words)


def values(first: int, count: int) -> list[bytes]:
    return [f"value {number}".encode() for number in range(first, first + count)]


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await scenario

    asyncio.run(bounded())


async def received(bridge: Inbound, count: int, *, store: bool = True) -> list[Message]:
    """So many messages for the topic itself, each batch acknowledged if `store`."""
    found: list[Message] = []
    while len(found) < count:
        batch = await bridge.receive()
        found += [message for message in batch if not message.beside]
        if store:
            await bridge.stored(batch)
    return found


class _Conformance:
    @pytest.fixture
    def make(self) -> Callable[[], Any]:
        raise NotImplementedError("give a fixture `make` that returns a new bridge at each call")

    def test_it_says_what_it_loses(self, make: Callable[[], Bridge]) -> None:
        bridge = make()
        assert isinstance(bridge.LOSES, str) and len(bridge.LOSES.split()) >= 3

    def test_its_own_settings_pass_its_own_check(self, make: Callable[[], Bridge]) -> None:
        bridge = make()
        assert bridge.check(bridge.end) == []
        assert all(isinstance(name, str) for name in bridge.OPTIONS)

    def test_its_status_is_json_before_while_and_after(self, make: Callable[[], Bridge]) -> None:
        async def scenario() -> None:
            bridge = make()
            json.dumps(bridge.status())
            async with bridge:
                json.dumps(bridge.status())
            json.dumps(bridge.status())

        run(scenario())

    def test_it_can_be_closed_without_having_been_opened(self, make: Callable[[], Bridge]) -> None:
        run(make().close())

    def test_it_opens_again_after_it_was_closed(self, make: Callable[[], Bridge]) -> None:
        async def scenario() -> None:
            for _ in range(3):
                async with make():
                    pass

        run(scenario())


class InboundConformance(_Conformance):
    """Inherit and give the fixtures `make` and `tell`."""

    CARRIES: ClassVar[Sequence[bytes]] = (b"", bytes(range(256)), b"x" * 100_000)
    """Values that are harder to carry; leave out what your system cannot have."""

    @pytest.fixture
    def tell(self) -> Tell:
        raise NotImplementedError("give a fixture `tell` that has the other system send these")

    def test_messages_come_in_order_and_whole(
        self, make: Callable[[], Inbound], tell: Tell
    ) -> None:
        sent = [*values(0, 200), *self.CARRIES]

        async def scenario() -> None:
            async with make() as bridge:
                await tell(sent)
                found = await received(bridge, len(sent))
                assert [message.value for message in found] == sent

        run(scenario())

    def test_a_receive_that_is_cancelled_loses_nothing(
        self, make: Callable[[], Inbound], tell: Tell
    ) -> None:
        async def scenario() -> None:
            async with make() as bridge:
                for _ in range(20):
                    waiting = asyncio.create_task(_first(bridge))
                    await asyncio.sleep(0)
                    waiting.cancel()
                    await asyncio.gather(waiting, return_exceptions=True)
                await tell(values(0, 5))
                found = await received(bridge, 5)
                assert [message.value for message in found] == values(0, 5)

        run(scenario())

    def test_what_was_stored_does_not_come_again(
        self, make: Callable[[], Inbound], tell: Tell
    ) -> None:
        async def scenario() -> None:
            async with make() as bridge:
                await tell(values(0, 20))
                await received(bridge, 20)
            async with make() as bridge:
                await tell(values(20, 1))
                assert [each.value for each in await received(bridge, 1)] == values(20, 1)

        run(scenario())

    def test_what_was_not_stored_comes_again_in_order(
        self, make: Callable[[], Inbound], tell: Tell
    ) -> None:
        if not make().REDELIVERS:
            pytest.skip("its source sends nothing again, and LOSES says so")

        async def scenario() -> None:
            async with make() as bridge:
                await tell(values(0, 10))
                await received(bridge, 10)
                await tell(values(10, 10))
                await received(bridge, 10, store=False)
            async with make() as bridge:
                assert [each.value for each in await received(bridge, 10)] == values(10, 10)
            async with make() as bridge:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(QUIET_S):
                        await _first(bridge)

        run(scenario())

    def test_what_comes_while_nobody_is_there_is_kept_if_it_redelivers(
        self, make: Callable[[], Inbound], tell: Tell
    ) -> None:
        if not make().REDELIVERS:
            pytest.skip("its source keeps nothing, and LOSES says so")

        async def scenario() -> None:
            async with make():
                pass  # known to the other side from now on
            await tell(values(0, 10))
            async with make() as bridge:
                assert [each.value for each in await received(bridge, 10)] == values(0, 10)

        run(scenario())


async def _first(bridge: Inbound) -> Sequence[Message]:
    """The next messages, without acknowledging them; an empty answer is none."""
    while not (found := await bridge.receive()):
        pass
    return found


class OutboundConformance(_Conformance):
    """Inherit and give the fixtures `make` and `got`: the next so many values at the other side."""

    CARRIES: ClassVar[Sequence[bytes]] = (bytes(range(256)), b"x" * 100_000)

    @pytest.fixture
    def got(self) -> Got:
        raise NotImplementedError("give a fixture `got` that waits for values at the other side")

    def test_records_go_out_in_order_and_whole(
        self, make: Callable[[], Outbound], got: Got
    ) -> None:
        sent = [*values(0, 200), *self.CARRIES]

        async def scenario() -> None:
            async with make() as bridge:
                await got(0)
                for first in range(0, len(sent), 50):
                    batch = [record(first + n, each) for n, each in enumerate(sent[first:][:50])]
                    assert list(await bridge.send(batch)) == []
                assert list(await got(len(sent))) == sent

        run(scenario())

    def test_what_was_confirmed_is_there_though_the_bridge_is_gone(
        self, make: Callable[[], Outbound], got: Got
    ) -> None:
        if not make().CONFIRMS:
            pytest.skip("the other side confirms nothing, and LOSES says so")

        async def scenario() -> None:
            await got(0)
            async with make() as bridge:
                await bridge.send([record(n, each) for n, each in enumerate(values(0, 10))])
            assert list(await got(10)) == values(0, 10)

        run(scenario())

    def test_records_without_key_or_value_and_odd_headers_are_sent_or_refused(
        self, make: Callable[[], Outbound], got: Got
    ) -> None:
        odd = [
            record(0, b"no key", key=None),
            record(1, None),
            record(2, b"odd key", key=b"\xff\x00#+/"),
            record(3, b"headers", headers=(("a", None), ("b", b"\xff\xfe"), ("a", b"twice"))),
            record(4, b"last"),
        ]

        async def scenario() -> None:
            async with make() as bridge:
                await got(0)
                refused = await bridge.send(odd)
                assert all(isinstance(each, Refusal) and each.reason for each in refused)
                gone = {each.record.offset for each in refused}
                expected = [each.value or b"" for each in odd if each.offset not in gone]
                assert list(await got(len(expected))) == expected

        run(scenario())

    def test_nothing_to_send_is_sent_at_once(self, make: Callable[[], Outbound]) -> None:
        async def scenario() -> None:
            async with make() as bridge:
                assert list(await bridge.send([])) == []

        run(scenario())


def fails_with_a_sentence(bridge: Bridge) -> HeadwaterError:
    """The error of a bridge to where nobody is; not a traceback, and not a wait without end."""

    async def scenario() -> None:
        async with bridge:
            pass

    with pytest.raises(HeadwaterError) as caught:
        run(scenario())
    return caught.value


__getattr__ = renamed(__name__, {"end": "bridge_end"})
