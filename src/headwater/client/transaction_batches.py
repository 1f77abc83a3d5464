"""Records on their way out: by partition, and as the batches of one transaction; pure.

Called by `transactional_writer`, which sends them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headwater.client.constants import TopicPartition
from headwater.client.transaction import Identity
from headwater.record import codecs, records
from headwater.record.records import Record

Headers = Sequence[tuple[str, str | bytes | None]] | None
Outgoing = (
    tuple[str, bytes | None, bytes | None] | tuple[str, bytes | None, bytes | None, Headers, int]
)
"""Topic, key, value; and headers and partition, -1 for that of the key."""
BY_KEY = -1
_COMPRESSED_BYTES = 1_000


def gathered(
    outgoing: Iterable[Outgoing], place_of: Callable[[str, bytes | None], int], now_ms: int
) -> dict[TopicPartition, list[Record]]:
    """`place_of`: the partition of a topic and a key."""
    found: dict[TopicPartition, list[Record]] = {}
    for record in outgoing:
        topic, key, value = record[:3]
        headers, number = record[3:] if len(record) == 5 else (None, BY_KEY)
        place = topic, place_of(topic, key) if number == BY_KEY else number
        own = tuple((name, v.encode() if isinstance(v, str) else v) for name, v in headers or ())
        batch = found.setdefault(place, [])
        batch.append(Record(len(batch), now_ms, key, value, own))
    return found


def built(batch: list[Record], who: Identity) -> bytes:
    """The first batch of a transaction in its partition."""
    large = sum(len(record.value or b"") for record in batch) >= _COMPRESSED_BYTES
    return records.build(
        batch,
        codec=codecs.LZ4 if large else codecs.NONE,
        producer_id=who.producer_id,
        producer_epoch=who.epoch,
        base_sequence=0,
        transactional=True,
    )
