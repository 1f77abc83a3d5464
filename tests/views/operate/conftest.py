"""A log and a view in SQLite that tests move by hand: no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.client.cluster import Cluster
from headwater.client.position import Position
from headwater.views.targets.contract import DELETED, Applied, Shape
from headwater.views.targets.sqlite.target import SqliteTarget

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("total", pa.float64())])


@pytest.fixture
def cluster(bootstrap: str) -> Iterator[Cluster]:
    made = Cluster({"bootstrap.servers": bootstrap})
    yield made
    made.close()


class Moved:
    """A view whose batches the test writes itself."""

    def __init__(self, path: Path, name: str = "orders_view", version: int = 1) -> None:
        self.to = f"sqlite:{path}"
        self.name = name
        self.target = SqliteTarget(self.to, Shape(name, SCHEMA, ("id",), version=version))
        self.target.create()
        self.epoch = self.target.claim()
        self.batch = 0

    def write(self, position: str, rows: list[tuple[int, str | None, float | None]]) -> Applied:
        """A batch; a row without a name deletes its key."""
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        staged = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        gone = pa.array([row[1] is None for row in rows], pa.bool_())
        batch = pa.record_batch([*staged, gone], names=[*SCHEMA.names, DELETED])
        parts = [self.target.stage(self.batch, 0, iter([batch]))] if rows else []
        applied = Applied(self.batch, self.epoch, Position.parse(position))
        self.target.commit(applied, parts)
        self.batch += 1
        return applied


@pytest.fixture
def moved(tmp_path: Path) -> Moved:
    return Moved(tmp_path / "views.db")
