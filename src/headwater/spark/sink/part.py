"""A task's part of a batch: all its rows in one transaction, which is prepared here and ended by the driver.

`stream` and `batch` call `write` in a Python worker of an executor. Nothing of a part can be seen by a
reader of committed data until the driver has decided. A part without rows has no transaction. A task that
fails aborts what it began; one that is killed leaves that to the next holder of its transactional id,
or to the broker's time-out.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.client import cluster as connect
from headwater.client import connection as api
from headwater.client import transaction
from headwater.client.cluster import Cluster
from headwater.client.errors import TransactionLost, UnknownTopic
from headwater.client.transaction import Identity
from headwater.spark import worker
from headwater.spark.sink.columns import Columns
from headwater.spark.sink.errors import BatchTooLong
from headwater.spark.sink.producer import Producing
from headwater.spark.sink.settings import Settings

_ABORT_S = 5.0


@dataclass(frozen=True)
class Part:
    """What the driver must know of a part: who wrote it, how much, and where to see it."""

    slot: int
    """The task's index in its stage."""
    rows: int = 0
    digest: int = 0
    """A sum over all rows: two parts with the same rows have the same, in whatever order."""
    identity: Identity | None = None
    """None if there were no rows."""
    witness: tuple[str, int, int] | None = None
    """Topic, partition and offset of one of its batches."""
    began: float = field(default=0.0, compare=False)
    """When its transaction began, in seconds since 1970."""


def write(
    cluster: Cluster,
    settings: Settings,
    columns: Columns,
    slot: int,
    transactional_id: str,
    arrow: Iterable[Any],
    must_be_wanted: Callable[[], object],
) -> Part:
    """Send all rows and wait until they are stored; the transaction stays open.

    `must_be_wanted` is called once a transaction is begun, before anything is in it; it raises where the
    batch can do without this attempt (see `open_transactions`).
    """
    from headwater.spark.sink.rows import Rows  # numba: for workers only, the driver waits for it

    worker.settle()
    rows: Rows | None = None
    producing: Producing | None = None
    identity: Identity | None = None
    began = 0.0
    try:
        for batch in by_schema(arrow, columns, settings):
            if batch.num_rows == 0:
                continue
            if rows is None or producing is None:
                rows = Rows(
                    columns,
                    settings.topic,
                    settings.batch_bytes,
                    lambda topic: partition_count(cluster, topic),
                )
                began = time.time()
                identity = transaction.begin(
                    cluster, transactional_id, settings.transaction_timeout_ms
                )
                must_be_wanted()
                producing = Producing(
                    cluster, identity, settings.codec, settings.delivery_timeout_s
                )
            producing.send(rows.encode(batch))
        if rows is None or producing is None:
            return Part(slot)
        producing.flush()
        if producing.witness is None:
            raise TransactionLost(
                "The broker does not say where it has stored the rows.",
                hint="They were sent twice and it has forgotten the first time: try again.",
            )
        return Part(slot, rows.count, rows.digest, identity, producing.witness, began)
    except BaseException as error:
        if identity is not None:
            _abort_quietly(cluster, identity)
        if isinstance(error, TransactionLost) and is_over(began, settings.transaction_timeout_ms):
            raise BatchTooLong.after(settings.transaction_timeout_ms) from error
        raise


def by_schema(arrow: Iterable[Any], columns: Columns, settings: Settings) -> Iterable[Any]:
    """With values as the registry has them, where that is asked for."""
    if settings.schema is None:
        return arrow
    from headwater.schemas.values.arrow import encoded

    schema = settings.schema
    return (encoded(batch, columns.value, *schema) for batch in arrow)


def is_over(began: float, timeout_ms: int) -> bool:
    """Whether the broker's time-out has come since then."""
    return 0.0 < began <= time.time() - timeout_ms / 1000


def _abort_quietly(cluster: Cluster, identity: Identity) -> None:
    """So that readers need not wait for the time-out. The error that brought us here matters more."""
    try:
        cluster.forget()  # answers to what was sent may still be on their way
        transaction.end(cluster, identity, commit=False, deadline_s=_ABORT_S)
    except Exception:
        cluster.forget()


def partition_count(cluster: Cluster, topic: str) -> int:
    """Of a topic that the broker creates now if it does not exist and may be created so."""
    body = {"topics": [{"name": topic}], "allow_auto_topic_creation": True}

    def attempt() -> int:
        (answer,) = cluster.anyone().ask(api.METADATA, body).topics
        if answer.error_code in (
            ErrorCode.unknown_topic_or_partition,
            ErrorCode.invalid_topic_exception,
        ):
            raise UnknownTopic(
                f"Topic {topic!r} does not exist.",
                hint=f"Create it (headwater topics create {topic}), or check the name.",
            )
        connect.check(answer.error_code, f"looking at topic {topic}")
        return len(answer.partitions)

    return cluster.retrying(attempt)
