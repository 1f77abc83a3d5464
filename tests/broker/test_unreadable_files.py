"""Files that cannot be read at start: those beside the segments cost nothing but time, and are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from headwater.errors import HeadwaterError
from headwater.log import checkpoints
from tests.broker.inspection.world import read
from tests.broker.serving import serving

TOPICS = {"paid": 2}
FILES = [
    "paid-0/00000000000000000003.snapshot",
    f"paid-0/{checkpoints.DURABLE_OFFSET}",
    f"paid-0/{checkpoints.LEADER_EPOCHS}",
    f"paid-0/{checkpoints.PARTITION_METADATA}",
    checkpoints.RECOVERY_POINTS,
    checkpoints.START_OFFSETS,
]


def write(bootstrap: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        for number in range(TOPICS["paid"]):
            producer.produce("paid", value, partition=number)
        assert producer.flush(30) == 0


@pytest.fixture
def stopped(data: Path) -> Path:
    """A folder with three records in each of two partitions."""
    with serving(data) as broker:
        broker.create("paid", 2)
        write(broker.bootstrap, b"1", b"2", b"3")
    return data


def in_the_way(path: Path) -> None:
    """Nobody reads a directory as a file, not even root."""
    path.unlink(missing_ok=True)
    (path / "inside").mkdir(parents=True)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("clean", [True, False])
def test_a_small_file_that_cannot_be_read_is_named_and_made_anew(
    stopped: Path, name: str, clean: bool
) -> None:
    if not clean:
        (stopped / ".kafka_cleanshutdown").unlink()
    in_the_way(stopped / name)
    with serving(stopped) as broker:
        assert "could not be read" in broker.broker.health.damage[name]
        write(broker.bootstrap, b"4")
        assert len(read(broker.bootstrap, topics=TOPICS)) == 8
    with serving(stopped) as broker:
        assert broker.broker.health.damage == {}
        assert len(read(broker.bootstrap, topics=TOPICS)) == 8


@pytest.mark.parametrize("name", [checkpoints.DURABLE_OFFSET, checkpoints.LEADER_EPOCHS])
def test_the_catalogues_own_files_must_be_readable(stopped: Path, name: str) -> None:
    in_the_way(stopped / "__headwater_catalogue-0" / name)
    with pytest.raises((OSError, HeadwaterError)), serving(stopped):
        pass
