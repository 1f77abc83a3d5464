"""Former owners that wrote under another producer id: found in the log, and fenced by that id. Blocking.

A claim (`claim`) fences by epochs of one producer id. Brokers forget a transactional id that nobody used for
a week (transactional.id.expiration.ms), and give another producer id when its epochs are used up: the new
owner's epochs then mean nothing to the former one's. But a partition takes, and remembers, an epoch from
whoever writes first under it. So before its own mark a claim writes, under the *former* producer id,

    key "\\0fence", no value, epoch 32767 (the last there is), sequence 0

into each topic that owners write. From then on everything that the former owner sends is refused.

Invariant: a claim's mark must come behind the fences of all other producer ids that owners wrote under; so
whoever finds a mark, or anything else of an owner, in the log need not look behind it.

A partition forgets a producer that is silent for a day (producer.id.expiration.ms). By then the former owner
is silent for good: it decides nothing under a claim of more than an hour (`lease`), and a connection on which
something still waits was closed by the broker long before (connections.max.idle.ms, ten minutes).
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

from collections.abc import Iterable, Iterator

from kio.schema.errors import ErrorCode

from headwater.client import batches
from headwater.client import cluster as connect
from headwater.client import connection as api
from headwater.client.batches import Batch
from headwater.client.cluster import READ_UNCOMMITTED, Cluster, TopicPartition, TryAgain
from headwater.client.leader import Leader
from headwater.client.transaction import PRODUCE_VERSION
from headwater.record.batch import BatchHeader
from headwater.record.records import Record, build

KEY = b"\0fence"
EPOCH = 32767
_TIMEOUT_MS = 20_000
_STEP, _STEP_MAX = 64, 16_384
_STANDS = (
    ErrorCode.none,
    ErrorCode.duplicate_sequence_number,
    ErrorCode.out_of_order_sequence_number,  # the last epoch has written already: it stands
)


def raise_before(
    cluster: Cluster, producer_id: int, events: TopicPartition, topics: Iterable[str]
) -> None:
    """Whoever owned the partition under another producer id than this can write no more."""
    former = last_owners(cluster, events) - {producer_id}
    for each in sorted(former):
        for topic in topics:
            _write(cluster, each, (topic, events[1]))


def last_owners(cluster: Cluster, events: TopicPartition) -> set[int]:
    """The producer id of the last owner, from the end of its events backwards.

    Tombstones (`headwater forget`) and fences are passed over. A batch whose records were all excised
    may be anybody's: it is counted too, which does no harm, and passed over.
    """
    found: set[int] = set()
    for header, is_owners in _backwards(cluster, events):
        if header.is_control or not header.has_producer_id:
            continue
        if is_owners or not header.record_count:
            found.add(header.producer_id)
        if is_owners:
            break
    return found


def only_tombstones(cluster: Cluster, events: TopicPartition, first: int, end: int) -> bool:
    """Whether no owner has written anything there, nor claimed."""
    return not any(
        is_owners or header.is_control for header, is_owners in _window(cluster, events, first, end)
    )


def _backwards(cluster: Cluster, place: TopicPartition) -> Iterator[tuple[BatchHeader, bool]]:
    """Every batch, and whether an owner wrote it: it is a claim's mark, or has a value."""
    start = cluster.list_offsets({place: connect.EARLIEST})[place]
    end, step = cluster.list_offsets({place: connect.LATEST})[place], _STEP
    while end > start:
        first = max(start, end - step)
        yield from reversed(_window(cluster, place, first, end))
        end, step = first, min(step * 4, _STEP_MAX)


def _window(
    cluster: Cluster, place: TopicPartition, first: int, end: int
) -> list[tuple[BatchHeader, bool]]:
    found = batches.read(cluster, place, first, end, READ_UNCOMMITTED)
    return [(each.header, each.header.is_transactional or _has_value(each)) for each in found]


def _has_value(batch: Batch) -> bool:
    return not batch.header.is_control and any(each.value is not None for each in batch.records())


def _write(cluster: Cluster, producer_id: int, place: TopicPartition) -> None:
    # Without a time, which only events have.
    batch = build(
        [Record(0, 0, KEY, None)], producer_id=producer_id, producer_epoch=EPOCH, base_sequence=0
    )
    body = {
        "transactional_id": None,
        "acks": -1,
        "timeout": _TIMEOUT_MS,
        "topic_data": [
            {"name": place[0], "partition_data": [{"index": place[1], "records": batch}]}
        ],
    }

    def attempt(connection: api.Connection) -> None:
        answer = connection.ask(api.PRODUCE, body, PRODUCE_VERSION)
        code = answer.responses[0].partition_responses[0].error_code
        if code in _STANDS:
            return
        if code is ErrorCode.unknown_topic_or_partition:
            raise TryAgain(f"{place[0]}-{place[1]} is not known yet")
        connect.check(code, f"fencing the former owner of {place[0]}-{place[1]}")

    Leader(cluster, place).ask(attempt)
