"""Where a view's function runs: which Spark session, which log, at which speed.

Set by the runner around each call of a function; read by `stream` and `table`. Outside of a runner
(a notebook) it is made from the environment: HEADWATER_BOOTSTRAP, HEADWATER_REGISTRY, and the session of
`session()`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.client.position import Position
from headwater.pipelines.declarations import MICRO_BATCH, View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headwater.pipelines.pinned_schemas import Pins
    from headwater.pipelines.registry import Described

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
REGISTRY = "HEADWATER_REGISTRY"
"""In the environment, so that every process of a project has it: the address of its registry."""
ADMISSION, ADMISSION_BYTES = "maxOffsetsPerTrigger", "maxBytesPerTrigger"
SHARING = "shareBy"
WHOLE = 2**62
"""As a limit: an input that must be read as a whole, whatever its size."""
BATCH_RECORDS_MAX = 1_000_000
"""The first batch of a view may otherwise be a topic's whole life: tasks that write to a store hold their
share of it in memory, and a transaction into a topic lives a quarter of an hour."""
BATCH_BYTES_MAX = 1 << 30
"""As BATCH_RECORDS_MAX, for records that are large."""


@dataclass(frozen=True)
class Reading:
    """How a stream is read: the options of its source, and the columns of that."""

    options: Mapping[str, str]
    row: StructType


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
    batch_records_max: int = BATCH_RECORDS_MAX
    """Of one batch, where `stream` and `table` do not say otherwise."""
    batch_bytes_max: int = BATCH_BYTES_MAX
    alone: bool = True
    """Whether the query has one source, which may wait for records without keeping another waiting."""
    registry: str | None = field(default_factory=lambda: os.environ.get(REGISTRY) or None)
    """Where the schemas of topics are that have some."""
    schemas_at: str | None = None
    """The checkpoint of the query whose schemas are meant, where it is another's than `checkpoint`."""
    described: dict[str, Described] = field(default_factory=dict)
    """What it has said of topics: asked once for a query, however often its function is called."""
    tried: Mapping[str, Pins] | None = None
    """Where given, topics are described by these schemas, to see what would come of it."""
    widen: Callable[[], None] | None = None
    """Gives the view's target the columns that the view has got."""
    reading: list[Reading] = field(default_factory=list)
    """What streams were made of."""
    records: DataFrame | None = None
    """Where given, these are what a stream has: a batch of it."""
    pinned: Position | None = None
    """Where given, inputs are batches that end there: what a view at that position must be."""

    def admission(self, given: Mapping[str, str], most: int = BATCH_RECORDS_MAX) -> dict[str, str]:
        """The limits of a batch as options of the source: what the user gave, or else the application's;
        no more than what the view is known to manage."""
        limits = self._records(given, most)
        if any(name.lower() == ADMISSION_BYTES.lower() for name in given):
            return limits
        if any(each.isdecimal() and int(each) >= WHOLE for each in limits.values()):
            return limits
        return {**limits, ADMISSION_BYTES: str(self.batch_bytes_max)}

    def _records(self, given: Mapping[str, str], most: int) -> dict[str, str]:
        name, said = next(
            ((n, v) for n, v in given.items() if n.lower() == ADMISSION.lower()),
            (ADMISSION, str(min(self.batch_records_max, most))),
        )
        known = None if self.view is None else self.view.batch_records_max
        if known is None or not said.isdecimal() or int(said) >= WHOLE:
            return {name: said}
        return {name: str(min(int(said), known))}

    def bounds(self, given: Mapping[str, str]) -> dict[str, str]:
        """The limits of a batch of events; in step by time, or what is read of the past would be late."""
        said = {name.lower() for name in given}
        in_step = {} if SHARING.lower() in said else {SHARING: "time"}
        return {**self.admission(given), **in_step}

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


@dataclass(frozen=True)
class Wanted:
    """What people want of one view."""

    paused_by: str | None = None
    restarts: int = 0
    """How many there were."""
