"""One writer of a topic at a time: a claim gives it the right, and takes it from whoever had it. Blocking.

Of `_schemas`, and of other topics of one partition whose records must be decided on all before them.

    1  InitProducerId of one transactional id, the same for every process   a new epoch
    2  a mark of that epoch into the partition     the partition refuses batches of older ones from here on
    3  the topic is read up to that mark           all that was ever accepted is known
    4  batches under the epoch, numbered from 1    each whole, or refused

Invariant: what is written must be decided on a state that was read after step 2 of the claim it is
written under. So no id and no version is given twice, whichever process dies or stalls where. A batch
whose answer is lost is never believed to be there or not: the next claim reads it or shuts it out.

Epochs end: after 32,766 claims the id gets a new producer id, which fences nobody. Whoever gets its first
epoch waits, before the mark, until the claims of the one before count no more.

A claim counts for `LEASE_S`, by a clock that also runs while the machine sleeps: long before a broker
forgets a silent producer (a day) or its transactional id (a week), after which epochs would mean nothing.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import time
from collections.abc import Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from headwater.client import cluster as connect
from headwater.client import connection as api
from headwater.client import transaction
from headwater.client.cluster import LATEST, Cluster
from headwater.client.leader import Leader
from headwater.client.transaction import PRODUCE_VERSION, Identity
from headwater.errors import HeadwaterError
from headwater.record import records as kafka
from headwater.schemas import records
from headwater.schemas.records import Record

LEASE_S = 10.0
TIMEOUT_MS = 20_000
_BOOT = getattr(time, "CLOCK_BOOTTIME", None)
_FENCED = (
    ErrorCode.invalid_producer_epoch,
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_id_mapping,
    ErrorCode.unknown_producer_id,
    ErrorCode.out_of_order_sequence_number,
    ErrorCode.duplicate_sequence_number,  # it is there, at an offset that nobody tells
)


class WriterFenced(HeadwaterError):
    """Another process writes now, or whether a batch is there is not known: claim, read, decide again."""


class _Claim(NamedTuple):
    identity: Identity
    since: float


class Writer:
    """For one thread at a time."""

    def __init__(
        self, cluster: Cluster, topic: str, of: str = "schemas", mark: Record | None = None
    ) -> None:
        """`of`: whose topic it is, in the transactional id; `mark`: what says nothing there."""
        self._cluster = cluster
        self._topic, self._of = topic, of
        self._mark = records.noop() if mark is None else mark
        self._leader = Leader(cluster, (topic, 0))
        self._claim: _Claim | None = None
        self._sequence = 0

    def claim(self) -> int | None:
        """The offset up to which the topic must be read first; None: the claim that there is still counts."""
        if self._claim is not None and _now() - self._claim.since < LEASE_S:
            return None
        self._claim = None
        since = _now()
        identity = transaction.begin(
            self._cluster, f"headwater-{self._of}-{self._topic}", TIMEOUT_MS
        )
        if identity.epoch == 0:
            self._outlast(since)
        self._claim, self._sequence = _Claim(identity, since), 0
        return self.append([self._mark])

    def _outlast(self, since: float) -> None:
        """Other claims, that began before this one: a new producer id takes the right from none of them."""
        place = (self._topic, 0)
        if self._cluster.list_offsets({place: LATEST})[place] > 0:
            time.sleep(max(0.0, since + LEASE_S - _now()))

    def close(self) -> None:
        self._cluster.close()

    def drop(self) -> None:
        self._claim = None

    def append(self, new: Sequence[Record]) -> int:
        """The offset of the last, which is on disk then. Raises WriterFenced; whatever it raises, `drop`
        follows.
        """
        assert self._claim is not None
        identity = self._claim.identity
        now_ms = time.time_ns() // 1_000_000
        batch = kafka.build(
            [kafka.Record(number, now_ms, each.key, each.value) for number, each in enumerate(new)],
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=self._sequence,
        )
        body = {
            "transactional_id": None,
            "acks": -1,
            "timeout": TIMEOUT_MS,
            "topic_data": [
                {"name": self._topic, "partition_data": [{"index": 0, "records": batch}]}
            ],
        }

        def attempt(connection: api.Connection) -> int:
            answer = connection.ask(api.PRODUCE, body, PRODUCE_VERSION)
            found = answer.responses[0].partition_responses[0]
            if found.error_code in _FENCED:
                raise WriterFenced(f"another writes {self._topic} now")
            connect.check(found.error_code, f"writing to {self._topic}")
            return int(found.base_offset)

        first = self._leader.ask(attempt)
        self._sequence += len(new)
        return first + len(new) - 1


def _now() -> float:
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)
