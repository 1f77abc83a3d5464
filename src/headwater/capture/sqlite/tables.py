"""The shapes that rows were written with, each with its encoder; asked by `drain` for every event.

Some rows of a table, in the order of its key, behind the last one that was read.

The order is the rowid's, which is how the rows lie in the file; of a
WITHOUT ROWID table it is the primary key's, compared byte by byte.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from headwater.capture.change import Record
from headwater.capture.config import CaptureConfig
from headwater.capture.outbox import Router
from headwater.capture.sqlite import state
from headwater.capture.sqlite.changes import Event, Values
from headwater.capture.sqlite.connection import quoted
from headwater.capture.sqlite.encode import ShapeEncoder, schema_record
from headwater.capture.sqlite.shape import Shape
from headwater.capture.topic_names import topic_of


class Tables:
    """By the number of the shape (`sid`); read from the database when first asked for."""

    def __init__(
        self, connection: sqlite3.Connection, config: CaptureConfig, database: str
    ) -> None:
        self._connection = connection
        self._config = config
        self._database = database
        self._shapes: dict[int, Shape] = {}
        self._encoders: dict[int, ShapeEncoder | Router] = {}
        self.topics: set[str] = set()

    def forget(self) -> None:
        """After a reconcile: a shape may have other triggers now."""
        self._shapes.clear()
        self._encoders.clear()

    def shape(self, sid: int) -> Shape:
        shape = self._shapes.get(sid)
        if shape is None:
            shape = self._shapes[sid] = state.shape_of(self._connection, sid)
        return shape

    def encoder(self, sid: int) -> ShapeEncoder | Router:
        """What makes records of its rows; a router, if it is the outbox."""
        encoder = self._encoders.get(sid)
        if encoder is None:
            encoder = self._encoders[sid] = self._make_encoder(self.shape(sid))
        return encoder

    def schema_record(self, event: Event) -> Record:
        """For the schema topic: the shape that holds from this event on."""
        config = self._config
        return schema_record(
            config.schema_topic, config.name, self._database, event, self.shape(event.sid)
        )

    def _make_encoder(self, shape: Shape) -> ShapeEncoder | Router:
        config = self._config
        if config.outbox is not None and shape.table.lower() == config.outbox.lower():
            router = Router(config.name, shape.table, shape.names[shape.shown])
            self.topics.add(router.dead_letters)
            return router
        topic = topic_of(config.name, shape.table)
        self.topics.add(topic)
        return ShapeEncoder(shape, config, topic, self._database)


def read_chunk(
    connection: sqlite3.Connection, shape: Shape, key: Values | None, condition: str | None = None
) -> Iterator[Values]:
    """Rows behind the key, to the table's end; the caller stops when it has enough.

    `condition`: only these."""
    order = [quoted(shape.names[place]) for place in shape.order]
    if "COLLATE" in shape.sql.upper():
        # Slower, for then no index may fit; but other collations call different keys equal.
        order = [f"{name} COLLATE BINARY" for name in order]
    names = ", ".join(quoted(name) for name in shape.names)
    conditions = [] if condition is None else [f"({condition})"]
    if key is not None:
        marks = ", ".join("?" for _ in order)
        conditions.append(f"({', '.join(order)}) > ({marks})")
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    cursor = connection.execute(
        f"SELECT {names} FROM {quoted(shape.table)}{where} ORDER BY {', '.join(order)}", key or ()
    )
    try:
        while rows := cursor.fetchmany(64):
            yield from rows
    finally:
        cursor.close()
