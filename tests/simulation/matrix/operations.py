"""What clients do to the broker: one function for each operation of the matrix.

`prepare` makes what the operation needs, once; the operation itself may be done any number of times.
Each asks through the client, which writes down what was answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from .client import Client, Pair
from .world import REQUESTS

Operation = Callable[[Client], Awaitable[None]]
SMALL = {"internal_segment_bytes": "700", "index_interval_bytes": "100", "retention_ms": "-1"}
TABLE = SMALL | {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "max_compaction_lag_ms": "1000",
    "segment_ms": "3000",
    "delete_retention_ms": "100",
}
RETENTION_MS = 60_000


def pairs(client: Client, count: int, keys: int = 5, size: int = 60) -> list[Pair]:
    dice = client.random
    return [
        (
            b"key-%d" % dice.randrange(keys),
            bytes(dice.choices(b"abcdefgh", k=dice.randint(1, size))),
        )
        for _ in range(count)
    ]


async def bystander(client: Client) -> None:
    """Somebody else's data: whatever happens to others, this stays as it is."""
    await client.ensure("bystander", 1, **SMALL)
    for _ in range(4):
        await client.produce("bystander", 0, pairs(client, 2))
    await client.commit("bystanders", "bystander", 0, 3)


async def produce(client: Client) -> None:
    """Plain batches, several at once, and a producer with sequences that asks again."""
    await client.ensure("orders", 2, **SMALL)
    dice = client.random
    for _ in range(dice.randint(2, 4)):
        count = dice.randint(1, 3)
        await asyncio.gather(
            *(client.produce("orders", dice.randrange(2), pairs(client, 2)) for _ in range(count))
        )
    producer = await client.init(None)
    for number in range(3):
        if producer is not None:
            await client.produce("orders", 0, pairs(client, 1), producer=(*producer, number))
    if dice.random() < 0.3:
        await client.poison("orders")


async def transactions(client: Client) -> None:
    """Commits, aborts, some left to their time-out, and commits at the very moment of that."""
    dice = client.random
    await client.ensure("payments", 2, **SMALL)
    name = dice.choice(("teller", "clerk"))
    await on_first_use(client, "__transaction_state")
    producer = await client.init(name)
    for _ in range(dice.randint(1, 3)):
        if producer is None:
            return
        producer = await transaction(client, name, producer, "payments")


async def on_first_use(client: Client, name: str) -> None:
    """Some client looks at a topic of the broker's before the broker needs it, and so makes it."""
    if client.random.random() < 0.3:
        await client.world.ask(3, 12, topics=[{"name": name}], allow_auto_topic_creation=True)


async def transaction(
    client: Client,
    name: str,
    producer: tuple[int, int],
    topic: str,
    *more: Pair,
    is_v1: bool = False,
) -> tuple[int, int] | None:
    """One of them; the producer for the next, or None if there is none."""
    dice = client.random
    begun = client.begin(name, is_v1=is_v1)
    group = f"readers-of-{name}"
    for partition in range(client.model.topic(topic).partitions):
        if is_v1 and not await client.add_partition(begun, producer, topic, partition):
            return None
        sequence = client.next_sequence(producer, topic, partition) if is_v1 else 0
        for _ in range(dice.randint(1, 2)):
            given = [*pairs(client, dice.randint(1, 2)), *more]
            if not await client.produce(
                topic, partition, given, begun, producer=(*producer, sequence)
            ):
                return None
            sequence += len(given)
        client.sequences[(*producer, topic, partition)] = sequence
    if dice.random() < 0.6:
        if not await client.commit_offset(begun, producer, group, topic, begun.number + 1):
            return None
    kind = dice.random()
    if kind < 0.15:
        return None  # left to its time-out
    if kind < 0.4:
        await client.world.wait_for_tick(dice.choice((1000, 1900, 1999, 2000)))
    return await client.end(begun, producer, commit=dice.random() < 0.7)


async def roll(client: Client) -> None:
    """Segments end while transactions are open in them."""
    await client.ensure("rolls", 1, **SMALL | {"internal_segment_bytes": "300"})
    producer = await client.init("roller")
    for _ in range(3):
        await client.produce("rolls", 0, pairs(client, 2, size=90))
        if producer is not None:
            producer = await transaction(client, "roller", producer, "rolls")


async def compaction(client: Client) -> None:
    """A table with transactions in it, sealed segment by segment, and a cleaner at work."""
    dice = client.random
    await client.ensure("table", 1, **TABLE)
    producer = await client.init("accountant")
    for _ in range(4):
        given: list[Pair] = pairs(client, 2, keys=3)
        if dice.random() < 0.3:
            given.append((b"key-%d" % dice.randrange(3), None))
        await client.produce("table", 0, given)
        if producer is not None and dice.random() < 0.7:
            producer = await transaction(client, "accountant", producer, "table")
        if dice.random() < 0.5:
            await client.world.wait(dice.choice((1.1, 3.5)))
    await client.world.wait(4)


async def policies(client: Client) -> None:
    """A topic turns from a table into a ring buffer and back, whatever is at work on it."""
    dice = client.random
    await client.ensure("turns", 1, **TABLE | {"retention_ms": "-1"})
    producer = await client.init("turner")
    for _ in range(4):
        policy = dice.choice(("compact", "delete", "compact,delete"))
        kept_ms = dice.choice(("-1", str(RETENTION_MS)))
        await client.configure("turns", cleanup_policy=policy, retention_ms=kept_ms)
        given: list[Pair] = pairs(client, 2, keys=3)
        given.append((b"key-%d" % dice.randrange(3), None))
        if policy == "delete" and dice.random() < 0.5:
            given.append((None, b"a table would not take it"))
        await client.produce("turns", 0, given)
        if producer is not None and dice.random() < 0.5:
            producer = await transaction(client, "turner", producer, "turns")
        if dice.random() < 0.3:
            client.world.clock.advance(RETENTION_MS + 1)
        await client.world.wait(dice.choice((0, 0.002, 1.1, 3.5)))
    await client.world.wait(dice.choice((0, 4)))


async def excision(client: Client) -> None:
    """A key is taken out; somebody asks for nonsense as well."""
    dice = client.random
    await client.ensure("people", 1, **SMALL)
    key = b"person-%d" % len(client.model.excisions)
    for _ in range(3):
        await client.produce(
            "people", 0, [*pairs(client, 1), (key, b"secret" * 5), *pairs(client, 1)]
        )
    await client.excise("people", key)
    if dice.random() < 0.5 and client.model.has(REQUESTS):
        nonsense = dice.choice(
            (
                b'{"id":"n1","topic":"people","target":{"salt":"","digest":"00"},"partitions":["x"]}',
                b'{"id":"n2","topic":"people","target":{"first_offset":"x"}}',
                b'{"id":"n3","topic":"people","target":{},"partitions":7}',
                b'{"id":["n4"],"topic":"people","target":{"last_offset":"9"}}',
                b"[]",
                b"\xff",
            )
        )
        await client.produce(REQUESTS, 0, [(b"nonsense", nonsense)])
    await client.world.wait(2)


async def retention(client: Client) -> None:
    """A ring buffer: what is old goes, segment by segment."""
    await client.ensure("ring", 2, **SMALL | {"retention_ms": str(RETENTION_MS)})
    for _ in range(3):
        for partition in range(2):
            await client.produce("ring", partition, pairs(client, 2))
        client.world.clock.advance(client.random.choice((100, RETENTION_MS // 2, RETENTION_MS + 1)))
        await client.world.wait(2)


async def delete_records(client: Client) -> None:
    """The start moves, in the middle of segments and over them."""
    dice = client.random
    await client.ensure("queue", 1, **SMALL)
    for _ in range(3):
        await client.produce("queue", 0, pairs(client, 3))
        await client.produce("queue", 0, pairs(client, 3))
        topic = client.model.topic("queue")
        end = max([s.offset + 1 for s in topic.sent.values()], default=0)
        if end > 0:
            await client.delete_records("queue", 0, dice.randint(topic.start.get(0, 0), end))
    await client.world.wait(dice.choice((0, 6)))


async def recreate(client: Client) -> None:
    """The same name again and again, and names that belong to the broker."""
    dice = client.random
    await client.ensure("phoenix", 2, **SMALL)
    for _ in range(3):
        await client.produce("phoenix", 0, pairs(client, 3))
    await client.delete_records("phoenix", 0, dice.randint(1, 9))
    await client.world.wait(dice.choice((0, 6)))
    if await client.delete("phoenix"):
        await client.create("phoenix", 2, **SMALL)
    if client.model.has("phoenix"):
        await client.produce("phoenix", 0, pairs(client, 2))
    if dice.random() < 0.3:
        name = dice.choice(("__headwater_catalogue", "__share_group_state", "__transaction_state"))
        await client.world.ask(3, 12, topics=[{"name": name}], allow_auto_topic_creation=True)


async def configs(client: Client) -> None:
    await client.ensure("settings", 1, **SMALL)
    for _ in range(3):
        value = client.random.choice(("-1", "100000000", "200000000"))
        await client.configure("settings", retention_ms=value)
        await client.produce("settings", 0, pairs(client, 1))


async def melee(client: Client) -> None:
    """One partition, and everybody at it at once: tables, transactions of both kinds, whoever deletes."""
    dice = client.random
    await client.ensure("arena", 1, **TABLE | {"retention_ms": "-1"})
    secret = b"secret-%d" % len(client.model.excisions)

    async def transact_once(number: int, *more: Pair) -> None:
        name, producer = ("early", "late")[number], producers[number]
        if producer is not None:
            producers[number] = await transaction(
                client, name, producer, "arena", *more, is_v1=not number
            )

    producers = [await client.init(name) for name in ("early", "late")]
    await client.produce("arena", 0, [*pairs(client, 1, keys=4), (secret, b"x")])
    for number in range(2):
        if dice.random() < 0.5:
            await transact_once(number, (secret, b"y"))

    async def transact(number: int) -> None:
        for _ in range(dice.randint(1, 3)):
            await client.world.wait(dice.choice((0, 0.001, 0.7)))
            await transact_once(number)

    async def write() -> None:
        for _ in range(dice.randint(2, 5)):
            given: list[Pair] = pairs(client, 2, keys=4)
            if dice.random() < 0.4:
                given.append((b"key-%d" % dice.randrange(4), None))
            await client.produce("arena", 0, given)
            await client.world.wait(dice.choice((0, 0.002, 1.1)))

    async def delete() -> None:
        for _ in range(dice.randint(0, 2)):
            await client.world.wait(dice.choice((0.001, 1.3, 3.1)))
            topic = client.model.topic("arena")
            end = max([s.offset + 1 for s in topic.sent.values()], default=0)
            first = topic.start.get(0, 0)
            if end > first:
                await client.delete_records("arena", 0, dice.randint(first, end))

    async def excise() -> None:
        if dice.random() < 0.4:
            await client.excise("arena", secret)

    async def turn() -> None:
        if dice.random() < 0.5:
            await client.world.wait(dice.choice((0.001, 1.3)))
            policy = dice.choice(("compact", "delete", "compact,delete"))
            kept_ms = dice.choice(("-1", str(RETENTION_MS)))
            await client.configure("arena", cleanup_policy=policy, retention_ms=kept_ms)

    await asyncio.gather(transact(0), transact(1), write(), delete(), excise(), turn())
    if dice.random() < 0.3:
        client.world.clock.advance(RETENTION_MS + 1)
    await client.world.wait(dice.choice((0, 1.5, 4)))


async def groups(client: Client) -> None:
    await client.ensure("read", 1, **SMALL)
    await client.produce("read", 0, pairs(client, 2))
    for _ in range(4):
        group = client.random.choice(("one", "two"))
        await client.commit(group, "read", 0, client.random.randrange(1000))


async def shares(client: Client) -> None:
    if not await client.read_from_start("workers") or not await client.ensure("jobs", 1, **SMALL):
        return
    await on_first_use(client, "__share_group_state")
    for _ in range(2):
        await client.produce("jobs", 0, pairs(client, 3))
    if client.random.random() < 0.1:
        await client.delete_share_state()
    await client.share("workers", "jobs", f"member-{client.timestamp()}")
    await client.world.wait(client.random.choice((0.1, 61)))


OPERATIONS: dict[str, Operation] = {
    "produce": produce,
    "transactions": transactions,
    "roll": roll,
    "compaction": compaction,
    "excision": excision,
    "retention": retention,
    "delete-records": delete_records,
    "recreate": recreate,
    "configs": configs,
    "policies": policies,
    "melee": melee,
    "groups": groups,
    "shares": shares,
}
