"""Large transactions by librdkafka: its threads go with the writer."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.client.bulk_writer import BulkWriter
from headwater.client.librdkafka import KafkaError, KafkaException
from headwater.client.log import Log
from tests.client.conftest import until


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing goes but what nobody refers to."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def writer_of(bootstrap: str, name: str, stopping: threading.Event) -> BulkWriter:
    settings = {"bootstrap.servers": bootstrap, "log_level": 0}
    return BulkWriter(settings, name, 60_000, message_bytes_max=1 << 20, stopping=stopping)


def librdkafkas() -> int:
    """Its threads in this process."""
    found = 0
    for file in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # it has just ended
            found += file.read_text().startswith("rdk:")
    return found


def test_a_closed_writer_leaves_no_threads(
    log: Log, topic: Callable[..., str], uncollected: None
) -> None:
    name, before = topic(), librdkafkas()
    for number in range(3):
        writer = writer_of(log.bootstrap, f"bulk-{name}", threading.Event())
        writer.open()
        writer.begin()
        writer.put(name, b"k", b"%d" % number)
        writer.commit()
        writer.close()
    del writer
    until(lambda: librdkafkas() <= before, "their threads to end")


def test_nor_does_one_that_could_not_be_opened(uncollected: None) -> None:
    """Else it may come through in the background, and fence whoever came after it."""
    before, stopping = librdkafkas(), threading.Event()
    stopping.set()
    writer = writer_of("127.0.0.1:1", "bulk", stopping)
    with pytest.raises(KafkaException):  # unnamed: it knows the writer
        writer.open()
    writer.close()
    del writer
    until(lambda: librdkafkas() <= before, "its threads to end")


def test_a_commit_says_why_a_record_was_refused(log: Log, topic: Callable[..., str]) -> None:
    name = topic(max_message_bytes=1_000)
    writer = writer_of(log.bootstrap, f"bulk-{name}", threading.Event())
    writer.open()
    writer.begin()
    writer.put(name, b"k", b"\0".join(b"%d" % n for n in range(5_000)))
    with pytest.raises(KafkaException) as refused:
        writer.commit()
    writer.close()
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
