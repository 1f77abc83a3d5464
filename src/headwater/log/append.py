"""What a topic's configuration makes of a batch before it is stored.

The broker calls `prepare` for every batch that a client produced, before `PartitionLog.stage`. Pure:
looks at the batch and the config, returns the batch to store, or raises why not.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from headwater.log.config import LogConfig
from headwater.record import batch as batches
from headwater.record import codecs
from headwater.record.batch import BatchHeader
from headwater.record.claims import NO_TIMESTAMP
from headwater.record.errors import InvalidBatch, RecordError
from headwater.record.keys import each_key
from headwater.record.validate import HEADERS_MAX
from headwater.record.varint import Buffer

_CODECS = {"uncompressed": codecs.NONE} | {name: n for n, name in enumerate(codecs.NAMES)}


class BatchTooLarge(RecordError):
    """Larger than the topic's `max.message.bytes`."""


class BatchExceedsSegment(BatchTooLarge):
    """Larger than a whole segment of the topic."""


RECORD_ERRORS_MAX = 100
"""So many records of a batch are named in its refusal: a small batch may have a million of them."""


class KeyMissing(InvalidBatch):
    """Records without a key for a compacted topic; the first of them."""

    def __init__(self, records: list[int]) -> None:
        super().__init__("Compacted topic cannot accept message without key.")
        self.records = records


class TimestampOutOfRange(RecordError):
    """Too far in the past or the future for the topic."""


def prepare(
    data: Buffer,
    config: LogConfig,
    now_ms: int,
    payload_bytes_max: int = codecs.SIZE_MAX,
    on_payload: Callable[[int], None] | None = None,
    headers_max: int = HEADERS_MAX,
    on_headers: Callable[[int], None] | None = None,
) -> tuple[Buffer, BatchHeader]:
    """The batch as it is to be stored, with its header. Raises RecordError.

    May take long, for a batch that is compressed or has many records: any thread will do.
    """
    _check_size(len(data), config)  # before anything of it is looked at
    header, earliest, latest, keyless = batches.validate_produced(
        data,
        payload_bytes_max=payload_bytes_max,
        on_payload=on_payload,
        headers_max=headers_max,
        on_headers=on_headers,
    )
    if config.compact and keyless:
        _check_keys(data)
    codec = stored_codec(header.codec, config)
    if codec != header.codec:
        data = batches.recompress(data, codec, _level(config, codec))
        header = batches.read_header(data)
        _check_size(header.size, config)
    if config.timestamp_type == "LogAppendTime":
        data = batches.with_append_time(data, now_ms)
        return data, batches.read_header(data)
    if header.is_log_append_time:
        raise TimestampOutOfRange("the batch claims append time, but the topic has create time")
    _check_times(earliest, latest, config, now_ms)
    if header.max_timestamp != latest:
        data, header = _with_max_timestamp(data, header, latest)
    return data, header


def _with_max_timestamp(
    data: Buffer, header: BatchHeader, latest: int
) -> tuple[Buffer, BatchHeader]:
    """Where the header does not say what the records do, as some clients leave it out: by it records
    are found, and removed when they are old."""
    header = header._replace(max_timestamp=latest)
    fixed = batches.pack(header, memoryview(data)[batches.HEADER_BYTES : header.size])
    return fixed, batches.read_header(fixed)


def stored_codec(codec: int, config: LogConfig) -> int:
    """The compression that a batch of this one gets in the log."""
    return _CODECS.get(config.compression_type, codec)


def _check_size(size: int, config: LogConfig) -> None:
    if size > config.max_message_bytes:
        raise BatchTooLarge(
            f"a batch of {size} bytes exceeds max.message.bytes={config.max_message_bytes}"
        )
    if size > config.segment_bytes:
        raise BatchExceedsSegment(
            f"a batch of {size} bytes exceeds segment.bytes={config.segment_bytes}"
        )


def _check_keys(data: Buffer) -> None:
    found = (offset for offset, key, _ in each_key(data) if key is None)
    without = list(islice(found, RECORD_ERRORS_MAX))
    if without:
        raise KeyMissing(without)


def _check_times(earliest: int, latest: int, config: LogConfig, now_ms: int) -> None:
    if earliest == NO_TIMESTAMP == latest:
        return
    if now_ms - earliest > config.timestamp_before_max_ms:
        raise TimestampOutOfRange(
            f"timestamp {earliest} is more than {config.timestamp_before_max_ms} ms in the past"
        )
    if latest - now_ms > config.timestamp_after_max_ms:
        raise TimestampOutOfRange(
            f"timestamp {latest} is more than {config.timestamp_after_max_ms} ms in the future"
        )


def _level(config: LogConfig, codec: int) -> int | None:
    if codec == codecs.GZIP:
        return config.compression_gzip_level
    if codec == codecs.LZ4:
        return config.compression_lz4_level
    return config.compression_zstd_level if codec == codecs.ZSTD else None
