"""What one turn of the event loop does for a Fetch must not grow with the batches that it reads or passes
over, nor with the transactions that were aborted among them: however few bytes and partitions that is.

Work is counted in lines of Python (`test_turns_of_state`), of a request that asks for all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kio.index import load_request_schema

from headwater.broker.broker import Broker
from headwater.broker.registry import Context, load_apis
from headwater.log import allowance
from headwater.log.partition import PartitionLog
from headwater.log.survivors import emptied
from headwater.record import batch as batches
from headwater.record import control
from headwater.wire import messages
from tests.broker.serving import Serving, serving
from tests.broker.test_turns_of_state import FEW, MANY, Begin, check_by_looking, watched
from tests.compat.batches import TRANSACTIONAL, batch
from tests.compat.wire import build

PARTITIONS = 4
AT_ONCE = 20
ONE = batch([(None, b"v")])
EMPTY = emptied(batches.read_header(ONE))
FETCH, VERSION = 1, 12


class Place(NamedTuple):
    serving: Serving
    count: int

    @property
    def broker(self) -> Broker:
        return self.serving.broker


def stage(log: PartitionLog, data: bytes) -> None:
    log.stage(data, batches.read_header(data), 1)


def transactional(producer: int, sequence: int = 0) -> bytes:
    return batch([(b"k", b"v")], producer=(producer, 0, sequence), attributes=TRANSACTIONAL)


def end(log: PartitionLog, producer: int, kind: int = control.ABORT) -> None:
    stage(log, control.marker(kind, producer, 0, 0, 1, 0))


def tiny(log: PartitionLog, count: int) -> None:
    for _ in range(count):
        stage(log, ONE)


def empties(log: PartitionLog, count: int) -> None:
    for _ in range(count):
        stage(log, EMPTY)


def aborts(log: PartitionLog, count: int) -> None:
    for number in range(count):
        stage(log, transactional(7, number))
        end(log, 7)


def aborts_beside_a_long_one(log: PartitionLog, count: int) -> None:
    stage(log, transactional(6))
    aborts(log, count)
    end(log, 6, control.COMMIT)


def an_open_one_at_the_end(log: PartitionLog, count: int) -> None:
    tiny(log, count)
    stage(log, transactional(6))


class Case(NamedTuple):
    fill: Callable[[PartitionLog, int], None]
    offset: float = 0
    """Where to begin, of all that there is."""
    size: int = 1 << 20
    committed: bool = False
    restarted: bool = True


CASES = {
    "small batches of before the start": Case(tiny),
    "small batches far from an entry of the index": Case(tiny, 0.9, 100, restarted=False),
    "batches of which nothing is left": Case(empties),
    "aborted transactions": Case(aborts, committed=True),
    "aborted transactions of this run": Case(aborts, committed=True, restarted=False),
    "aborted beside a long one": Case(aborts_beside_a_long_one, 0.1, 200, True),
    "a stable offset far from an entry": Case(an_open_one_at_the_end, 0, 100, True, False),
}


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture
def places(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Place, Place]]:
    monkeypatch.setattr(allowance, "ENTRIES_MAX", AT_ONCE)
    with ExitStack() as stack:
        made = []
        for count in (FEW, MANY):
            data = tmp_path / str(count)
            with serving(data) as broker:
                broker.create("t", PARTITIONS, index_interval_bytes=2**31 - 1)
                if case.restarted:
                    fill(broker, case, count)
            broker = stack.enter_context(serving(data))
            if not case.restarted:
                fill(broker, case, count)
            made.append(Place(broker, count))
        yield made[0], made[1]


def fill(broker: Serving, case: Case, count: int) -> None:
    for number in range(PARTITIONS):
        log = broker.log("t", number)
        broker.call(lambda: (case.fill(log, count // PARTITIONS), log.flush()))  # noqa: B023


def fetch_all(place: Place, case: Case, answers: list[Any]) -> Begin:
    part = {
        "current_leader_epoch": -1,
        "fetch_offset": int(case.offset * place.serving.log("t").next_offset),
        "last_fetched_epoch": -1,
        "partition_max_bytes": case.size,
    }
    asked = {
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 30,
        "isolation_level": int(case.committed),
        "session_epoch": -1,
        "topics": [
            {"topic": "t", "partitions": [{**part, "partition": n} for n in range(PARTITIONS)]}
        ],
    }
    request = build(load_request_schema(FETCH, VERSION), asked, lenient=True)

    async def begun() -> None:
        answer = place.broker.apis[FETCH].handle(
            place.broker, request, Context(VERSION, "client", "host")
        )
        answers.append(answer if isinstance(answer, dict) else await answer)

    return begun


def test_no_turn_of_a_fetch_grows_with_the_batches_it_looks_at(
    case: Case, places: tuple[Place, Place]
) -> None:
    answers: list[Any] = []

    def look(place: Place) -> Any:
        begin = fetch_all(place, case, answers)
        return watched(place, lambda: begin)  # type: ignore[arg-type]

    check_by_looking("Fetch", lambda: (look(places[0]), look(places[1])))
    rows = answers[-1]["responses"][0]["partitions"]
    assert len(rows) == PARTITIONS
    assert all(row["records"] and not row.get("error_code") for row in rows)


def test_an_answer_that_names_many_aborted_transactions_is_written_in_a_thread() -> None:
    aborted = [{"producer_id": n, "first_offset": n} for n in range(messages.ROWS_AT_ONCE_MAX + 1)]
    row = {"partition_index": 0, "aborted_transactions": aborted, "records": b""}
    body = {"responses": [{"topic": "t", "partitions": [row]}]}
    assert messages.is_much(body, load_apis()[FETCH].rows_depth)
