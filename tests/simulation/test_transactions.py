"""The power fails in every step of a broker's disk; each transaction is whole or absent, never torn.

One life of a transactional producer (both versions of the protocol, commits, aborts, offsets, fencing)
is lived on a disk that is copied before each of its steps. From every copy a broker starts anew, and
what it serves to `read_committed` must fit what the producer had been told by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from headwater.broker.broker import Broker
from headwater.broker.registry import Context, Later
from headwater.record import batch as batches
from headwater.record import records
from headwater.testing.clock import ManualClock
from headwater.testing.faulty_disk import FaultyDisk
from tests.compat.batches import TRANSACTIONAL, batch
from tests.compat.wire import build

from .plan import SOAK

ROOT = Path("/data")
OUTCOMES = 20 if SOAK else 2
EVERY = 1 if SOAK else 2
TOPIC, GROUP, NAME = "orders", "readers", "transactor"
PLACES = [(TOPIC, 0), (TOPIC, 1)]
SETTINGS = {"log.cleaner.enable": False}


def broker_on(disk: FaultyDisk) -> Broker:
    return Broker(ROOT, "127.0.0.1:0", SETTINGS, clock=ManualClock(), files=disk)


@dataclass(frozen=True)
class Known:
    """What the producer knows: numbers of transactions that are committed, and one in doubt."""

    committed: tuple[int, ...] = ()
    doubtful: int | None = None


@dataclass
class Client:
    """A producer that calls the handlers as a connection would."""

    broker: Broker
    known: Known = field(default_factory=Known)
    id: int = -1
    epoch: int = -1

    async def ask(self, key: int, version: int, **values: Any) -> Any:
        schema: Any = load_request_schema(key, version)
        context = Context(version, "simulated", "here")
        api = self.broker.apis[key]
        answer = api.handle(self.broker, build(schema, values), context)
        if isinstance(answer, Later):
            waiting = asyncio.get_running_loop().create_future()
            answer.listen(waiting.set_result, waiting.set_exception)
            return await waiting
        return await answer if isinstance(answer, Awaitable) else answer

    async def init(self) -> None:
        for _ in range(2):  # the first aborts what is open
            answer = await self.ask(
                22,
                5,
                transactional_id=NAME,
                transaction_timeout=60_000,
                producer_id=-1,
                producer_epoch=-1,
            )
            if not answer.get("error_code"):
                break
        assert not answer.get("error_code"), answer
        self.id, self.epoch = answer["producer_id"], answer["producer_epoch"]

    async def transaction(self, number: int, *, commit: bool, version: int = 2) -> None:
        """Its number goes to both partitions and, as an offset, to the group."""
        if version == 1:
            topics = [{"name": TOPIC, "partitions": [0, 1]}]
            answer = await self.ask(24, 3, **self._me("v3_and_below_"), v3_and_below_topics=topics)
            await self.ask(25, 3, **self._me(), group_id=GROUP)
        for _, partition in PLACES:
            data = batch(
                [(None, b"%d" % number)],
                timestamps=[self.broker.clock.now_ms()],
                producer=(self.id, self.epoch, 0),
                attributes=TRANSACTIONAL,
            )
            parts = [{"index": partition, "records": data}]
            answer = await self.ask(
                0,
                11 + (version == 2),
                transactional_id=NAME,
                acks=-1,
                topic_data=[{"name": TOPIC, "partition_data": parts}],
            )
            row = answer["responses"][0]["partition_responses"][0]
            assert not row.get("error_code"), row
        offsets = [{"partition_index": 0, "committed_offset": number}]
        topics = [{"name": TOPIC, "partitions": offsets}]
        answer = await self.ask(
            28, 3 + 2 * (version == 2), **self._me(), group_id=GROUP, topics=topics
        )
        assert answer["topics"][0]["partitions"][0]["error_code"] is ErrorCode.none
        if commit:
            self.known = replace(self.known, doubtful=number)
        answer = await self.ask(26, 3 + 2 * (version == 2), **self._me(), committed=commit)
        assert answer["error_code"] is ErrorCode.none
        if commit:
            self.known = Known((*self.known.committed, number))
        if version == 2:
            self.id, self.epoch = answer["producer_id"], answer["producer_epoch"]

    def _me(self, prefix: str = "") -> dict[str, Any]:
        return {
            f"{prefix}transactional_id": NAME,
            f"{prefix}producer_id": self.id,
            f"{prefix}producer_epoch": self.epoch,
        }


def visible(broker: Broker, number: int) -> list[int]:
    """What `read_committed` sees of a partition."""
    log = broker.topics.partitions[TOPIC, number].log
    data = bytes(log.read(0, 1 << 20, upper=log.last_stable_offset()) or b"")
    aborted = log.aborted_between(0, log.last_stable_offset())
    found = []
    for position, header in batches.scan(data):
        dropped = any(
            each.producer_id == header.producer_id
            and each.first_offset <= header.base_offset < each.last_offset
            for each in aborted
        )
        if not header.is_control and not dropped:
            found += [int(record.value or b"") for record in records.decode(data, position)]
    return found


def offset_of(broker: Broker) -> int:
    _, offsets = broker.groups.offsets.fetch(GROUP)
    value = offsets.get(TOPIC, 0)
    return -1 if value is None else value.offset


async def all_moments() -> list[tuple[FaultyDisk, Known]]:
    """Live, and keep the disk as it was before each of its steps."""
    disk, moments = FaultyDisk(1), list[tuple[FaultyDisk, Known]]()
    async with broker_on(disk) as broker:
        await broker.topics.create(TOPIC, 2, {})
        client = Client(broker)
        await client.init()
        disk.before_each_step(lambda: moments.append((disk.copy(), client.known)))
        await client.transaction(0, commit=True)
        await client.transaction(1, commit=False)
        await client.transaction(2, commit=True)
        await client.init()
        for number in range(3):
            await client.transaction(number + 3, commit=number != 1, version=1)
            await client.init()  # sequences begin anew with each epoch
        assert visible(broker, 0) == visible(broker, 1) == [0, 2, 3, 5]
        assert offset_of(broker) == 5
        disk.before_each_step(None)
    return moments


async def check(disk: FaultyDisk, known: Known) -> None:
    async with broker_on(disk) as broker:
        coordinator = broker.transactions
        while any(each.is_prepared for each in coordinator.transactions.values()):
            await asyncio.sleep(0)
        expected = [list(known.committed)]
        if known.doubtful is not None:
            expected.append([*known.committed, known.doubtful])
        seen = [visible(broker, number) for _, number in PLACES]
        assert seen[0] == seen[1], f"torn: {seen}"
        assert seen[0] in expected, f"{seen[0]} is none of {expected}"
        assert offset_of(broker) == (seen[0][-1] if seen[0] else -1), "offset and output differ"
        await Client(broker).init()
        for place in PLACES:
            log = broker.topics.partitions[place].log
            assert log.last_stable_offset() == log.durable_offset, "a transaction hangs"
        assert [visible(broker, number) for _, number in PLACES] == seen


def test_a_power_cut_in_any_step_leaves_each_transaction_whole_or_absent() -> None:
    moments = asyncio.run(all_moments())
    assert len(moments) > 150, "or this shows little"
    assert any(known.doubtful is not None for _, known in moments)
    for number, (disk, known) in enumerate(moments):
        if number % EVERY and known.doubtful is None:
            continue
        for outcome in range(OUTCOMES):
            left = disk.crash(outcome) if outcome % 3 else disk.kill(outcome)
            try:
                asyncio.run(check(left, known))
            except AssertionError as error:
                raise AssertionError(f"moment {number}, outcome {outcome}: {error}") from error
