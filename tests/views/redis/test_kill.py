"""Redis killed with -9 around commits: rows and position stay together, and nothing counts twice."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from headwater.testing.targets import ADA, BOB, CAT, Writer, at, rows_of, shape
from headwater.views.targets.contract import Kind, Unavailable
from headwater.views.targets.registry import target_for
from tests.conftest import SOAK
from tests.views.redis.server import RedisServer, redis_server

ROUNDS = 60 if SOAK else 2


@pytest.fixture
def own() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


def test_a_log_that_ends_in_the_middle_of_a_commit_has_nothing_of_it(own: RedisServer):
    writer = Writer(target_for(own.url, shape()))
    writer.write(0, [ADA, BOB])
    part = writer.stage(1, 0, [CAT, (1, "Ava", None)])
    before = own.last_file().stat().st_size
    writer.commit(1, [part])
    own.kill()
    # What a power cut in the middle of the write leaves: any beginning of it.
    size = own.last_file().stat().st_size
    with own.last_file().open("r+b") as file:
        file.truncate(before + (size - before) * 2 // 3)
    own.start()
    assert rows_of(writer.target) == [ADA, BOB]
    known = writer.target.applied()
    assert known is not None and known.batch == 0
    writer.commit(1, [part])  # what was staged is there still
    assert rows_of(writer.target) == [(1, "Ava", None), BOB, CAT]
    assert writer.target.applied() != known


def test_rows_are_exact_whenever_redis_is_killed(own: RedisServer):
    seed = random.SystemRandom().getrandbits(32) if SOAK else 7
    print(f"seed {seed}")
    chance = random.Random(seed)
    expected: dict[int, tuple[int, str, None]] = {}
    events: list[tuple[int, str, None]] = []
    for batch in range(ROUNDS):
        changed = {chance.randrange(4000): chance.random() < 0.3 for _ in range(2000)}
        rows = [(n, f"{n} in {batch}", None, gone) for n, gone in changed.items()]
        for n, name, total, gone in rows:
            expected.pop(n, None)
            if not gone:
                expected[n] = (n, name, total)
        events += [row[:3] for row in rows]
        killer = threading.Timer(chance.uniform(0.0, 0.15), own.aimed())
        killer.start()
        _until_applied(own, batch, rows)
        killer.join()
        own.kill()
        own.start()
        assert rows_of(target_for(own.url, shape())) == sorted(expected.values(), key=repr)
    appended = target_for(own.url, shape(Kind.APPEND, view="events"))
    assert rows_of(appended) == sorted(events, key=repr)


def _until_applied(server: RedisServer, batch: int, rows: list[tuple[object, ...]]) -> None:
    """As a driver does it that is started again whenever its target fails it."""
    while True:
        try:
            keyed = Writer(target_for(server.url, shape()))
            keyed.write(batch, rows[::2], rows[1::2])
            added = Writer(target_for(server.url, shape(Kind.APPEND, view="events")))
            added.write(batch, [row[:3] for row in rows])
            assert keyed.target.applied().position == at(batch + 1)  # type: ignore[union-attr]
            return
        except Unavailable:
            server.kill()
            server.start()
