"""A transaction too large for one batch: cut, stopped in the middle, and gone on with."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from headwater.capture.change import Batch, Position
from headwater.capture.postgres import assembly
from headwater.capture.postgres.source import PostgresSource
from headwater.capture.runner import Runner
from tests.capture.postgres.running import Setting

SOAK = os.environ.get("HEADWATER_SOAK") == "1"


class Dying(PostgresSource):
    """A source whose process ends in the middle of a transaction."""

    mark = 0
    """Where the test's changes end."""

    def stream(self, position: Position) -> Iterator[Batch]:
        cut = 0
        for batch in super().stream(position):
            yield batch
            cut += "skip" in batch.position
            if cut == 2:
                raise KeyboardInterrupt
            if batch.position["lsn"] >= self.mark:
                return


@pytest.mark.parametrize("streaming", [True, False] if SOAK else [True])
def test_a_cut_transaction_goes_on_at_the_event_behind_the_last_that_was_written(
    setting: Setting, streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "TRANSACTION_BYTES_MAX", 40_000)
    setting.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    config = setting.config("t", partitions=1, options={"streaming": streaming})
    with setting.running(config) as runner:
        setting.caught_up(runner)
    with setting.connect() as connection:
        connection.execute("INSERT INTO t SELECT n, 'x' FROM generate_series(1, 400) n")
        connection.execute("UPDATE t SET id = id + 1000 WHERE id <= 100")
        connection.execute("ALTER TABLE t ADD more int")
        connection.execute("INSERT INTO t SELECT n, 'y', n FROM generate_series(401, 600) n")
        connection.commit()
    setting.execute("INSERT INTO t VALUES (5000, 'after')")
    [(mark,)] = setting.execute("SELECT (pg_current_wal_lsn() - '0/0')::int8")
    monkeypatch.setattr(Dying, "mark", mark)
    deaths = 0
    while deaths < 50:
        try:
            Runner(config, open_source=Dying).run()
            break
        except KeyboardInterrupt:
            deaths += 1
    assert deaths >= 2
    records = [record for record in setting.read("t") if record.value is not None]
    orders = [record.value["transaction"]["total_order"] for record in records]
    assert orders == [*range(1, 801), 1], "each event once, in order"
    ids = [record.value["after"]["id"] for record in records if record.value["op"] == "c"]
    moved = range(1001, 1101)
    assert ids == [*range(1, 401), *moved, *range(401, 601), 5000]
    first = [r.value for r in setting.read("transaction")]
    assert [r["status"] for r in first] == ["BEGIN", "END", "BEGIN", "END"]
    assert first[1]["event_count"] == 800
    told = [record.value["change"] for record in setting.read("schema-changes")]
    assert told == ["CREATE", "ALTER"]
