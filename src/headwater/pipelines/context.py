"""Where a view's function runs: which Spark session, which log, at which speed.

Set by the runner around each call of a function; read by `stream` and `table`. Outside of a runner
(a notebook) it is made from the environment: HEADWATER_BOOTSTRAP, and the session of `session()`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.pipelines.declared import MICRO_BATCH, View
from headwater.views.position import Position

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


@dataclass
class Context:
    """What the vocabulary needs to know, and what it notes while a function runs."""

    spark: SparkSession
    bootstrap: str
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of the Kafka client (security), without the prefix `kafka.`."""
    speed: str = MICRO_BATCH
    view: View | None = None
    streams: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    dead_letters: bool = False
    """Whether what does not fit goes to the view's dead-letter topic."""
    checkpoint: str | None = None
    """The folder of the query's checkpoint, where somebody keeps it running."""
    pinned: Position | None = None
    """Where given, inputs are batches that end there: what a view at that position must be."""

    def kafka_options(self) -> dict[str, str]:
        """The client's settings as options of a source or a sink."""
        named = {**self.client, "bootstrap.servers": self.bootstrap}
        return {f"kafka.{name}": value for name, value in named.items()}


_CURRENT: ContextVar[Context | None] = ContextVar("headwater_pipelines", default=None)


@contextmanager
def within(context: Context) -> Iterator[Context]:
    """Let `stream` and `table` see `context`."""
    token = _CURRENT.set(context)
    try:
        yield context
    finally:
        _CURRENT.reset(token)


def current() -> Context:
    context = _CURRENT.get()
    if context is None:
        from headwater.pipelines.session import session

        address = os.environ.get("HEADWATER_BOOTSTRAP") or DEFAULT_BOOTSTRAP
        return Context(spark=session(), bootstrap=address)
    return context
