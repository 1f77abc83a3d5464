"""Small transactions by Produce and EndTxn alone, in headwater's log and in Apache Kafka."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaException, Producer
from kio.schema.errors import ErrorCode

from headwater import testing
from headwater.client import creation, transaction
from headwater.client.cluster import Cluster
from headwater.client.connection import END_TXN, Connection, Disconnected
from headwater.client.creation import Wanted
from headwater.client.librdkafka import FENCED
from headwater.client.log import Log
from headwater.client.options import cluster_settings
from headwater.client.transactional_writer import RECORDS_MAX, TransactionalWriter
from headwater.testing.apache_kafka import QUICK_JVM, MissingServer, apache_kafka
from tests.capture.core.reading import read
from tests.capture.postgres.running import eventually
from tests.compat.missing import skip_or_fail

_numbers = itertools.count()
Opened = Callable[..., TransactionalWriter]


@pytest.fixture(scope="module", params=["headwater", "apache kafka"])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "headwater":
        log: Log = request.getfixturevalue("log")
        yield log.bootstrap
        return
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(apache_kafka(jvm=QUICK_JVM))
        except MissingServer as missing:
            skip_or_fail(f"{missing}: Apache Kafka cannot run here")
        yield server.bootstrap


@pytest.fixture
def rows(bootstrap: str) -> str:
    name = f"small{next(_numbers)}"
    with contextlib.closing(_cluster(bootstrap)) as cluster:
        wanted = [
            Wanted(f"{name}.rows", 3, {"max.message.bytes": "20000"}),
            Wanted(f"{name}.position", 1, {}),
        ]
        creation.ensure(cluster, wanted)
        topics = {each.name for each in wanted}
        eventually("they are known", lambda: topics == set(cluster.metadata(topics).topics))
    return name


@pytest.fixture
def opened(bootstrap: str, rows: str) -> Iterator[Opened]:
    """A writer of the test's transactional id, open."""
    made: list[TransactionalWriter] = []

    def open_one(kind: type[TransactionalWriter] = TransactionalWriter) -> TransactionalWriter:
        writer = kind(_cluster(bootstrap), rows, 60_000)
        made.append(writer)
        writer.open()
        assert writer.usable
        return writer

    yield open_one
    for writer in made:
        writer.close()


def _cluster(bootstrap: str) -> Cluster:
    return Cluster(cluster_settings({"bootstrap.servers": bootstrap}, 30))


def test_records_are_there_together_in_order_and_where_every_client_puts_them(
    bootstrap: str, rows: str, opened: Opened
) -> None:
    writer = opened()
    for n in range(60):
        batch = [(f"{rows}.rows", b"%d" % (n % 7), b"%d" % n, [("h", "é"), ("none", None)], -1)]
        batch += [(f"{rows}.rows", b"%d" % (n % 7), None, None, -1)] if n % 5 == 0 else []
        assert writer.write([*batch, (f"{rows}.position", b"p", b"%d" % n, None, 0)])
    found = read(bootstrap, f"{rows}.rows")
    assert sorted(r.value for r in found if r.value is not None) == list(range(60))
    assert sum(r.value is None for r in found) == 12
    for key in range(7):
        assert [r.value for r in found if r.key == key and r.value is not None] == [
            *range(key, 60, 7)
        ]
    assert found[0].headers == [("h", "é".encode()), ("none", None)]
    assert [r.value for r in read(bootstrap, f"{rows}.position")] == list(range(60))

    theirs = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for key in range(7):
        theirs.produce(f"{rows}.rows", b"-1", b"%d" % key)
    assert theirs.flush(30) == 0
    places = {(r.key, r.partition) for r in read(bootstrap, f"{rows}.rows")}
    assert len(places) == 7, "each key is in one partition, whoever wrote it"


def test_the_younger_of_two_fences_the_elder(bootstrap: str, rows: str, opened: Opened) -> None:
    elder = opened()
    assert elder.write([(f"{rows}.rows", b"1", b"1")])
    younger = opened()
    with pytest.raises(KafkaException) as refused:
        elder.write([(f"{rows}.rows", b"1", b"2")])
    assert refused.value.args[0].code() in FENCED
    assert younger.write([(f"{rows}.rows", b"1", b"3")])
    assert [r.value for r in read(bootstrap, f"{rows}.rows")] == [1, 3]


def test_of_a_transaction_with_a_record_that_is_refused_nothing_is_there(
    bootstrap: str, rows: str, opened: Opened
) -> None:
    writer = opened()
    assert writer.write([(f"{rows}.rows", b"1", b"1"), (f"{rows}.position", b"p", b"1", None, 0)])
    # Numbers that do not repeat: compressed, it is still larger than the topic takes.
    large = str(list(range(20_000))).encode()
    for _ in range(2):
        assert not writer.write(
            [(f"{rows}.position", b"p", b"2", None, 0), (f"{rows}.rows", b"1", large)]
        )
    assert not writer.write([(f"{rows}.position", b"p", b"2", None, 0), ("no-such", b"1", b"1")])
    assert writer.write([(f"{rows}.rows", b"1", b"3"), (f"{rows}.position", b"p", b"3", None, 0)])
    assert [r.value for r in read(bootstrap, f"{rows}.rows")] == [1, 3]
    assert [r.value for r in read(bootstrap, f"{rows}.position")] == [1, 3]


class CutBehindProduce(TransactionalWriter):
    """Its connection breaks when the records are stored, and their answer is lost; once."""

    cut = True

    def _sent(self, batches):  # type: ignore[no-untyped-def]
        answer = super()._sent(batches)
        if self.cut:
            self.cut = False
            self._cluster.forget()
            raise Disconnected("cut")
        return answer


def test_of_records_whose_answer_was_lost_nothing_is_there(
    bootstrap: str, rows: str, opened: Opened
) -> None:
    writer = opened(CutBehindProduce)
    assert not writer.write([(f"{rows}.rows", b"1", b"1")])
    assert writer.write([(f"{rows}.rows", b"1", b"2")])
    assert [r.value for r in read(bootstrap, f"{rows}.rows")] == [2]


class CutBehindEnd(TransactionalWriter):
    """Its connection breaks when the transaction has been committed, and the answer is lost."""

    def _end(self, connection: Connection, *, commit: bool) -> None:
        super()._end(connection, commit=commit)
        self._cluster.forget()
        raise Disconnected("cut")


def test_an_end_whose_answer_was_lost_is_not_guessed(
    bootstrap: str, rows: str, opened: Opened
) -> None:
    with pytest.raises(KafkaException, match="cut"):
        opened(CutBehindEnd).write([(f"{rows}.rows", b"1", b"1")])
    assert opened().write([(f"{rows}.rows", b"1", b"2")])
    assert [r.value for r in read(bootstrap, f"{rows}.rows")] == [1, 2]


def test_a_coordinator_that_is_gone_is_looked_for_anew_at_once(
    bootstrap: str, rows: str, opened: Opened
) -> None:
    writer = opened()

    def lose_the_coordinator() -> None:
        writer._cluster.locate(99, ("127.0.0.1", 1))  # nobody listens there
        transaction._keepers[writer._cluster] = {(transaction.TRANSACTION, rows): 99}

    lose_the_coordinator()
    assert writer.write([(f"{rows}.rows", b"1", b"1")])
    lose_the_coordinator()
    assert not writer.write([("no-such", b"1", b"1")])
    assert writer.write([(f"{rows}.rows", b"1", b"2")])
    assert [r.value for r in read(bootstrap, f"{rows}.rows")] == [1, 2]


class AskedElsewhere(TransactionalWriter):
    """The first broker that it asks to end a transaction is its coordinator no more."""

    moved = True

    def _end(self, connection: Connection, *, commit: bool) -> None:
        asked = connection.ask

        def ask(which: int, body: Mapping[str, Any], most: int | None = None) -> Any:
            if not self.moved or which != END_TXN:
                return asked(which, body, most)
            self.moved = False
            nobody = {**body, "transactional_id": "nobody's", "producer_id": 1}
            return replace(asked(which, nobody, most), error_code=ErrorCode.not_coordinator)

        connection.ask = ask  # type: ignore[method-assign]
        try:
            super()._end(connection, commit=commit)
        finally:
            connection.ask = asked  # type: ignore[method-assign]


@pytest.mark.parametrize("commit", [True, False])
def test_a_broker_that_is_no_coordinator_any_more_has_done_nothing_and_another_is_asked(
    bootstrap: str, rows: str, opened: Opened, commit: bool
) -> None:
    writer = opened(AskedElsewhere)
    assert writer.write([(f"{rows}.rows" if commit else "no-such", b"1", b"1")]) == commit
    assert not cast("AskedElsewhere", writer).moved
    assert writer.write([(f"{rows}.rows", b"1", b"2")])
    assert [r.value for r in read(bootstrap, f"{rows}.rows")] == ([1, 2] if commit else [2])


def test_a_coordinator_on_a_machine_that_swallows_everything_is_not_waited_for_as_for_an_answer(
    bootstrap: str, rows: str
) -> None:
    """A request may take a quarter of an hour here, and the test would with it."""
    with swallowing() as nobody:
        settings = {
            "bootstrap.servers": f"{nobody[0]}:{nobody[1]},{bootstrap}",
            "request.timeout.ms": "900000",
            "socket.connection.setup.timeout.ms": "200",
        }
        cluster = Cluster(cluster_settings(settings, 900))
        writer = TransactionalWriter(cluster, rows, 60_000)
        writer.open()
        assert nobody in cluster._silent
        for _ in range(2):
            cluster.locate(99, nobody)
            transaction._keepers[cluster] = {(transaction.TRANSACTION, rows): 99}
            assert writer.write([(f"{rows}.rows", b"1", b"1")])
        writer.close()


def test_without_any_coordinator_a_writer_gives_up_long_before_its_client_does() -> None:
    """So that whoever called begins anew; its client would wait for a quarter of an hour."""
    with testing.broker() as log:
        cluster = Cluster(cluster_settings({"bootstrap.servers": log.bootstrap}, 900))
        creation.ensure_one(cluster, "lonely", 1)
        writer = TransactionalWriter(cluster, "lonely", 60_000)
        writer.open()
        assert writer.write([("lonely", b"1", b"1")])
    with pytest.raises(KafkaException):
        writer.write([("lonely", b"1", b"2")])
    writer.close()


def test_a_connection_is_probed_while_it_is_silent(bootstrap: str) -> None:
    cluster = _cluster(bootstrap)
    used = cluster.anyone()._socket
    assert used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert used.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < 10
    cluster.close()


@contextlib.contextmanager
def swallowing() -> Iterator[tuple[str, int]]:
    """An address that takes no connection and refuses none: its queue is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(5):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()


def test_a_coordinator_that_has_moved_is_asked_where_it_is_now(
    bootstrap: str, rows: str, opened: Opened
) -> None:
    writer = opened()
    connection = writer._coordinator()
    (node,) = [n for n, where in writer._cluster._brokers.items() if where == connection.address]
    writer._cluster.forget()
    writer._cluster.locate(node, ("127.0.0.1", 1))
    transaction._keepers.pop(writer._cluster, None)
    assert transaction.asking(writer._cluster, writer._coordinator).address == connection.address


def test_while_a_coordinator_is_away_a_writer_can_be_stopped(rows: str, bootstrap: str) -> None:
    stopping = threading.Event()
    settings = cluster_settings({"bootstrap.servers": bootstrap}, 3_600)
    with contextlib.closing(Cluster(settings, stopping)) as cluster:
        writer = TransactionalWriter(cluster, rows, 60_000)
        writer.open()
        cluster.close()
        cluster._bootstrap = [("127.0.0.1", 1)]
        cluster._brokers = dict.fromkeys(cluster._brokers, ("127.0.0.1", 1))
        said: list[BaseException] = []

        def write() -> None:
            try:
                writer.write([(f"{rows}.rows", b"1", b"1")])
            except KafkaException as error:
                said.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        stopping.set()
        thread.join(60)
        assert not thread.is_alive() and len(said) == 1


def test_what_is_large_or_has_a_place_of_its_own_is_for_others(rows: str, opened: Opened) -> None:
    writer, record = opened(), (f"{rows}.rows", b"1", b"1")
    assert writer.takes([record] * RECORDS_MAX)
    assert not writer.takes([record] * (RECORDS_MAX + 1))
    assert not writer.takes([(f"{rows}.rows", b"1", b"x" * 70_000)])
    assert not writer.takes([(f"{rows}.rows", b"1", b"x", None, 2)])
    assert not writer.takes([(f"{rows}.rows", b"1", b"x", None, -2)])  # one in every partition
