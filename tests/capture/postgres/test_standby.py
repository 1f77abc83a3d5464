"""A first snapshot that is read from a standby, while the changes come from its primary."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from headwater.capture.change import in_snapshot
from headwater.capture.errors import Interrupted, SourceRefused
from headwater.capture.postgres import assembly, replication, slot
from headwater.capture.postgres import standby as reading
from headwater.capture.postgres.connection import APPLICATION
from headwater.capture.postgres.source import PostgresSource
from tests.capture.postgres.driven import Driven
from tests.capture.postgres.running import eventually
from tests.capture.postgres.server import PostgresServer, postgres
from tests.capture.postgres.standby import in_step, standby_of
from tests.capture.servers.builds import POSTGRES_14, POSTGRES_18
from tests.capture.servers.versions import POSTGRES_17

pytestmark = pytest.mark.timeout(900)
ACCOUNTS = 200


_BUILDS = [
    pytest.param(None, id="installed"),
    *(
        pytest.param(build, id=build.name, marks=pytest.mark.soak)
        for build in (POSTGRES_14, POSTGRES_17, POSTGRES_18)
    ),
]


@pytest.fixture(scope="module", params=_BUILDS)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    with postgres(build=request.param) as primary, standby_of(primary) as standby:
        yield primary, standby


@pytest.fixture
def shop(
    pair: tuple[PostgresServer, PostgresServer], request: pytest.FixtureRequest
) -> Iterator[Driven]:
    primary, standby = pair
    name = f"shop{abs(hash(request.node.name)) % 10**8}"
    primary.execute(f"CREATE DATABASE {name}")
    primary.execute(
        "CREATE TABLE account (id int PRIMARY KEY, version int NOT NULL, amount int NOT NULL)",
        f"INSERT INTO account SELECT n, 0, 100 FROM generate_series(1, {ACCOUNTS}) n",
        "CREATE TABLE journal (account int, version int)",  # without a key: a row is a row
        "ALTER TABLE journal REPLICA IDENTITY FULL",
        database=name,
    )
    in_step(primary, standby)
    made = Driven(name, snapshot_from=standby.url(name), chunk_rows=20)
    yield made
    source = PostgresSource(made.config(primary))
    source.forget()
    source.close()


@contextlib.contextmanager
def transfers(primary: PostgresServer, name: str) -> Iterator[threading.Event]:
    """Money goes from account to account, for as long as the block lasts; each writes the journal."""
    stopping, first = threading.Event(), threading.Event()

    def write() -> None:
        with psycopg.connect(primary.url(name)) as connection:
            number = 0
            while not stopping.is_set():
                number += 1
                one, other = number % ACCOUNTS + 1, number * 7 % ACCOUNTS + 1
                for account, amount in ((one, -1), (other, 1)):
                    connection.execute(
                        "WITH new AS (UPDATE account SET version = version + 1, amount = amount + %s "
                        "WHERE id = %s RETURNING id, version) INSERT INTO journal SELECT * FROM new",
                        [amount, account],
                    )
                connection.commit()
                first.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert first.wait(60)
        yield stopping
    finally:
        stopping.set()
        thread.join(60)


def equal(run: Driven, primary: PostgresServer) -> None:
    """What readers have is what the tables have; and no row was ever older than before."""
    rows: dict[int, Any] = {}
    journal: Counter[tuple[int, int]] = Counter()
    for topic, key, value in run.records:
        if topic == f"{run.name}.journal":
            if value["op"] == "t":
                journal.clear()
            else:
                journal[value["after"]["account"], value["after"]["version"]] += 1
        if topic != f"{run.name}.account" or value is None or value["op"] == "t":
            continue
        row = value["after"]
        elder = rows.get(key["id"])
        again = value["op"] == "r"
        assert elder is None or row["version"] - elder["version"] >= (0 if again else 1), (
            elder,
            value,
        )
        rows[key["id"]] = row
    there = primary.execute("SELECT id, version, amount FROM account", database=run.name)
    assert {(r["id"], r["version"], r["amount"]) for r in rows.values()} == set(there)
    written = Counter(primary.execute("SELECT account, version FROM journal", database=run.name))
    assert journal == written


def test_rows_of_a_standby_and_the_primarys_changes_are_the_tables(
    shop: Driven, pair: tuple[PostgresServer, PostgresServer]
) -> None:
    primary, _ = pair
    with transfers(primary, shop.name):
        shop.snapshot(primary)
    shop.stream(primary)
    assert sum(op == "r" for op, _ in shop.changes("account")) == ACCOUNTS
    equal(shop, primary)


@pytest.mark.parametrize("batches", [1, 4, 9, 14])
def test_a_snapshot_from_a_standby_that_is_killed_goes_on(
    shop: Driven, pair: tuple[PostgresServer, PostgresServer], batches: int
) -> None:
    primary, _ = pair
    with transfers(primary, shop.name):
        for killed_after in (batches, batches, None):
            if in_snapshot(shop.position):
                shop.snapshot(primary, batches=killed_after)
    shop.stream(primary)
    equal(shop, primary)


def test_a_snapshot_of_the_primary_that_is_killed_doubles_no_row_without_a_key(
    shop: Driven, pair: tuple[PostgresServer, PostgresServer]
) -> None:
    primary, _ = pair
    del shop.options["snapshot_from"]
    with transfers(primary, shop.name):
        shop.snapshot(primary, batches=3)
        shop.snapshot(primary)
    shop.stream(primary)
    equal(shop, primary)


def test_a_transaction_that_was_cut_while_a_snapshot_catches_up_hides_nothing_of_the_next(
    shop: Driven, pair: tuple[PostgresServer, PostgresServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    primary, _ = pair
    del shop.options["snapshot_from"]
    shop.snapshot(primary, batches=3)
    three = "UPDATE account SET version = version + 1 WHERE id < 4"
    primary.execute(three, database=shop.name)

    def created(*words: Any, **more: Any) -> tuple[int, str]:
        made = create_slot(*words, **more)
        primary.execute(three, database=shop.name)
        return made

    create_slot = slot.create_slot
    monkeypatch.setattr(slot, "create_slot", created)
    monkeypatch.setattr(assembly, "TRANSACTION_BYTES_MAX", 1)  # cut behind each row, the last too
    shop.snapshot(primary)
    shop.stream(primary)
    equal(shop, primary)


def test_a_moment_with_a_commit_in_it_is_not_taken(
    shop: Driven, pair: tuple[PostgresServer, PostgresServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    primary, _ = pair
    place = 1 + next(n for n, one in enumerate(reading.LOOK) if "replay_lsn" in one)
    slow = (*reading.LOOK[:place], "SELECT pg_sleep(0.2)", *reading.LOOK[place:])
    monkeypatch.setattr(reading, "LOOK", slow)  # between the place and the view
    monkeypatch.setattr(reading, "LOOKS", 2)
    monkeypatch.setattr(reading, "TRIES", 3)
    monkeypatch.setattr(replication, "STATUS_EVERY_S", 0.0)  # a try must not move the slot
    with transfers(primary, shop.name):
        with pytest.raises(Interrupted, match="it just replayed a commit"):
            shop.snapshot(primary)
        monkeypatch.undo()
        shop.snapshot(primary)
    shop.stream(primary)
    equal(shop, primary)


def test_a_standby_that_replays_all_the_time_is_looked_at_until_it_rests(
    pair: tuple[PostgresServer, PostgresServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, standby = pair
    moments = [(1, "a", 2), (3, "b", 4), (5, "c", 5), (6, "d", 7)]
    monkeypatch.setattr(reading, "_moment", lambda _: moments.pop(0))
    followed = reading.Standby(standby.url("postgres"))
    monkeypatch.setattr(reading, "LOOKS", 10)
    view = followed._look()
    view.connection.close()
    assert (view.snapshot, view.lsn, view.last) == ("c", 5, 5)
    monkeypatch.setattr(reading, "LOOKS", 1)  # what never rests is taken as it is: the stream tells
    view = followed._look()
    view.connection.close()
    assert (view.lsn, view.last) == (6, 7)


def test_a_standby_that_is_behind_is_waited_for(
    shop: Driven, pair: tuple[PostgresServer, PostgresServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    primary, standby = pair
    monkeypatch.setattr(reading, "CATCH_UP_S", 0.5)
    standby.execute("SELECT pg_wal_replay_pause()")
    try:
        with pytest.raises(Interrupted, match="has not yet what the log has"):
            shop.snapshot(primary)
        primary.execute("UPDATE account SET version = 1 WHERE id = 1", database=shop.name)
    finally:
        standby.execute("SELECT pg_wal_replay_resume()")
    monkeypatch.undo()
    shop.snapshot(primary)
    shop.stream(primary)
    equal_accounts = primary.execute("SELECT id, version FROM account", database=shop.name)
    assert {(row["id"], row["version"]) for row in shop.rows("account")} == set(equal_accounts)


def test_a_capture_that_waits_for_a_standby_can_be_stopped_and_goes_on_with_its_slot(
    shop: Driven, pair: tuple[PostgresServer, PostgresServer]
) -> None:
    primary, standby = pair
    standby.execute("SELECT pg_wal_replay_pause()")
    source = PostgresSource(shop.config(primary))
    try:
        waiting = next(source.snapshot(None))
    finally:
        source.close()
        standby.execute("SELECT pg_wal_replay_resume()")
    assert waiting.position["snapshot"]["done"] == [] and not waiting.records
    primary.execute("UPDATE account SET version = 1 WHERE id = 1", database=shop.name)
    shop.position = waiting.position
    shop.snapshot(primary)  # which is refused where the slot is another
    shop.stream(primary)
    equal(shop, primary)


@contextlib.contextmanager
def limping(standby: PostgresServer) -> Iterator[None]:
    """Replay stops all the time and is behind, for as long as the block lasts."""
    stopping = threading.Event()

    def limp() -> None:
        while not stopping.wait(0.02):
            standby.execute("SELECT pg_wal_replay_pause()")
            stopping.wait(0.4)
            standby.execute("SELECT pg_wal_replay_resume()")

    thread = threading.Thread(target=limp)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(60)


def test_a_standby_that_is_always_behind_gives_a_snapshot(
    shop: Driven, pair: tuple[PostgresServer, PostgresServer]
) -> None:
    primary, standby = pair

    def complete() -> bool:
        # On a busy machine replay may stand still for too long, or move whenever it is looked at.
        with contextlib.suppress(Interrupted):
            shop.snapshot(primary)
        return not in_snapshot(shop.position)

    with transfers(primary, shop.name), limping(standby):
        eventually("the snapshot is complete", complete)
    shop.stream(primary)
    equal(shop, primary)


def test_a_standby_that_stays_behind_on_purpose_is_refused(
    shop: Driven, pair: tuple[PostgresServer, PostgresServer]
) -> None:
    primary, standby = pair
    reload = "SELECT pg_reload_conf()"
    asked = "SELECT current_setting('recovery_min_apply_delay')"
    standby.execute("ALTER SYSTEM SET recovery_min_apply_delay = '4s'", reload)
    try:
        eventually("the setting holds", lambda: standby.execute(asked) == [("4s",)])
        with pytest.raises(SourceRefused, match=r"on purpose .recovery_min_apply_delay = 4s."):
            shop.snapshot(primary)
    finally:
        standby.execute("ALTER SYSTEM RESET recovery_min_apply_delay", reload)
        eventually("the setting is gone", lambda: standby.execute(asked) == [("0",)])


def test_only_replay_that_stands_still_counts_as_waiting_in_vain() -> None:
    standstill = reading.Standstill()
    replayed = [(100, 0.0), (100, 9.0), (101, 18.0), (101, 20.0), (102, 40.0), (102, 51.0)]
    assert [standstill.seconds(*one) for one in replayed] == [0, 9, 0, 2, 0, 11]


def test_a_snapshot_from_a_standby_holds_nothing_at_the_primary_nor_anything_behind_it(
    shop: Driven, pair: tuple[PostgresServer, PostgresServer]
) -> None:
    primary, standby = pair
    idle = (
        "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' "
        f"AND application_name = '{APPLICATION}'"
    )
    source = PostgresSource(shop.config(primary))
    try:
        source.topics()
        workers = shop.config(primary).option("snapshot_workers", 2)
        for batch in source.snapshot(None):
            if batch.rows:
                assert primary.execute(idle) == [(0,)]
                eventually(
                    "only readers and planner have the snapshot",
                    lambda: standby.execute(idle)[0][0] <= workers + 1,
                )
        for _ in source.stream(batch.position):
            eventually("nobody holds the snapshot", lambda: standby.execute(idle) == [(0,)])
            return
    finally:
        source.close()


def test_columns_that_the_standby_has_not_yet_come_with_the_stream(
    shop: Driven, pair: tuple[PostgresServer, PostgresServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    primary, standby = pair
    shop.snapshot(primary, batches=3)

    def altered(self: reading.Standby) -> reading.View:
        view = look(self)
        standby.execute("SELECT pg_wal_replay_pause()")
        primary.execute(
            "ALTER TABLE account ADD COLUMN note text",
            "UPDATE account SET note = 'n', version = version + 1 WHERE id IN (1, 199)",
            database=shop.name,
        )
        return view

    look = reading.Standby._look
    monkeypatch.setattr(reading.Standby, "_look", altered)
    try:
        shop.snapshot(primary)
    finally:
        standby.execute("SELECT pg_wal_replay_resume()")
    shop.stream(primary)
    last = {
        key["id"]: value["after"]
        for topic, key, value in shop.records
        if topic == f"{shop.name}.account"
    }
    assert last[199] == {"id": 199, "version": 1, "amount": 100, "note": "n"}


def test_a_server_that_is_no_standby_is_refused_and_a_standby_is_looked_at(
    shop: Driven, pair: tuple[PostgresServer, PostgresServer]
) -> None:
    primary, _ = pair
    source = PostgresSource(shop.config(primary))
    try:
        assert [one for one in source.check() if one.name == "snapshot_from" and one.ok]
    finally:
        source.close()
    shop.options["snapshot_from"] = primary.url(shop.name)
    source = PostgresSource(shop.config(primary))
    try:
        (found,) = [one for one in source.check() if one.name == "snapshot_from"]
        assert not found.ok and "no standby" in found.sentence
    finally:
        source.close()
    with pytest.raises(SourceRefused, match="is no standby"):
        shop.snapshot(primary)


def test_another_database_of_the_standby_is_refused(
    shop: Driven, pair: tuple[PostgresServer, PostgresServer]
) -> None:
    primary, standby = pair
    shop.options["snapshot_from"] = standby.url("postgres")
    source = PostgresSource(shop.config(primary))
    try:
        (found,) = [one for one in source.check() if one.name == "snapshot_from"]
        assert not found.ok and "the database postgres" in found.sentence
    finally:
        source.close()
    with pytest.raises(SourceRefused, match=f"the database postgres, .* {shop.name}"):
        shop.snapshot(primary)


def test_a_standby_that_was_promoted_is_refused() -> None:
    with postgres() as primary, standby_of(primary) as standby:
        primary.execute("CREATE DATABASE shop")
        primary.execute("CREATE TABLE t (id int PRIMARY KEY)", database="shop")
        in_step(primary, standby)
        run = Driven("shop", snapshot_from=standby.url("shop"))
        standby.execute("SELECT pg_promote()")
        eventually(
            "it is promoted", lambda: not standby.execute("SELECT pg_is_in_recovery()")[0][0]
        )
        with pytest.raises(SourceRefused, match="is no standby"):
            run.snapshot(primary)
