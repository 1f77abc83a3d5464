"""The small files: written as Kafka writes them, and never believed when they are not whole."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.log import checkpoints
from headwater.testing.faulty_disk import FaultyDisk

from .plain import FOLDER, new_disk

PATH = FOLDER / "checkpoint"


def test_offsets_are_written_as_kafka_writes_them() -> None:
    disk = new_disk()
    checkpoints.write_offsets(disk, PATH, {("b", 0): 7, ("a", 11): 5, ("a", 2): 0})
    assert disk.read_bytes(PATH) == b"0\n3\na 2 0\na 11 5\nb 0 7\n"
    assert checkpoints.read_offsets(disk, PATH) == {("a", 2): 0, ("a", 11): 5, ("b", 0): 7}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"0\n",
        b"0\n2\na 0 1\n",  # one line short
        b"0\n1\na 0 1\nb 0 2\n",  # one line too many
        b"1\n1\na 0 1\n",  # a version to come
        b"0\n1\na 0\n",
        b"0\n1\na x 1\n",
        b"0\n1\na 0 -1\n",
        bytes(20),
        b"\xff\xfe\x00",
    ],
)
def test_a_checkpoint_that_is_not_whole_counts_as_absent(text: bytes) -> None:
    disk = new_disk()
    disk.write(PATH, text)
    assert checkpoints.read_offsets(disk, PATH) == {}


def test_a_missing_checkpoint_is_empty() -> None:
    assert checkpoints.read_offsets(FaultyDisk(), Path("/nowhere/checkpoint")) == {}


def test_leader_epochs_are_written_as_kafka_writes_them() -> None:
    disk = new_disk()
    checkpoints.write_epochs(disk, FOLDER, [(0, 0), (3, 120)])
    assert disk.read_bytes(FOLDER / "leader-epoch-checkpoint") == b"0\n2\n0 0\n3 120\n"
    assert checkpoints.read_epochs(disk, FOLDER) == [(0, 0), (3, 120)]


def test_a_topic_id_survives_the_trip_to_disk() -> None:
    disk = new_disk()
    topic_id = uuid.UUID("3f7c2e51-9b10-4c3e-8a2d-0123456789ab")
    checkpoints.write_topic_id(disk, FOLDER, topic_id)
    text = disk.read_bytes(FOLDER / "partition.metadata") or b""
    assert text == b"version: 0\ntopic_id: P3wuUZsQTD6KLQEjRWeJqw\n"
    assert checkpoints.read_topic_id(disk, FOLDER) == topic_id


@pytest.mark.parametrize("text", [b"", b"version: 0\n", b"topic_id: ?\n", b"topic_id: AAAA\n"])
def test_a_topic_id_that_cannot_be_read_is_none(text: bytes) -> None:
    disk = new_disk()
    disk.write(FOLDER / "partition.metadata", text)
    assert checkpoints.read_topic_id(disk, FOLDER) is None


@given(st.integers(0, 2**63 - 1), st.integers(0, 95))
def test_a_durable_offset_is_believed_only_if_every_bit_is_right(offset: int, bit: int) -> None:
    disk = new_disk()
    disk.write(FOLDER / "durable-offset", checkpoints.pack_durable_offset(offset))
    assert checkpoints.read_durable_offset(disk, FOLDER) == offset
    disk.flip_bit(FOLDER / "durable-offset", bit // 8, bit % 8)
    assert checkpoints.read_durable_offset(disk, FOLDER) == 0


@pytest.mark.parametrize("data", [b"", bytes(11), bytes(12) + b"\0"])
def test_a_durable_offset_of_another_length_is_not_believed(data: bytes) -> None:
    disk = new_disk()
    disk.write(FOLDER / "durable-offset", data)
    assert checkpoints.read_durable_offset(disk, FOLDER) == 0
