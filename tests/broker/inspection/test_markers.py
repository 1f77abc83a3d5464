"""Markers that are damaged or gone: after a repair what was aborted is hidden, what was committed is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.record import control
from headwater.record.batch import BatchHeader
from tests.broker.inspection.world import (
    World,
    batches_of,
    checked,
    flip,
    mended,
    patch,
    read_folder,
)

Place = tuple[Path, int, BatchHeader]
TYPE_BYTE = 69
"""Where a marker says whether it commits or aborts."""


def markers(world: World, kind: int) -> list[Place]:
    """Of the topic `paid`: every third transaction aborts, beginning with the second."""
    found = [
        (path, position, header)
        for path in world.segments("paid")
        for position, header in batches_of(path)
        if header.is_control
    ]
    return [each for n, each in enumerate(found) if (n % 3 == 1) == (kind == control.ABORT)]


def cut_at(place: Place) -> None:
    path, position, _ = place
    os.truncate(path, position + 40)


def cut_before(place: Place) -> None:
    path, position, _ = place
    os.truncate(path, position)


def scribble(place: Place) -> None:
    path, position, _ = place
    patch(path, position + 12, b"\xff" * 60)


def take_out(place: Place) -> None:
    path, position, header = place
    data = path.read_bytes()
    path.write_bytes(data[:position] + data[position + header.size :])


def assert_aborted_stay_hidden(world: World) -> None:
    mended(world.data)
    for at, row in read_folder(world.data, committed=True).items():
        assert world.committed.get(at) == row, f"{at} was aborted, and is visible"


@pytest.mark.parametrize("damage", [cut_at, cut_before])
@pytest.mark.parametrize("number", [0, 3])
def test_what_was_aborted_stays_hidden_where_a_segment_ends_before_the_marker(
    world: World, damage: Callable[[Place], None], number: int
) -> None:
    damage(markers(world, control.ABORT)[number])
    assert_aborted_stay_hidden(world)


@pytest.mark.parametrize("damage", [scribble, take_out])
def test_what_was_aborted_stays_hidden_where_markers_are_lost_in_the_middle(
    world: World, damage: Callable[[Place], None]
) -> None:
    for place in reversed(markers(world, control.ABORT)):
        damage(place)
    assert_aborted_stay_hidden(world)


def test_a_list_without_its_checksum_makes_no_marker(world: World) -> None:
    """It may be damaged itself: records that were committed would be hidden."""
    for path in world.folder("paid").glob("*.txnindex"):
        flip(path, 17)
    path, position, _ = markers(world, control.COMMIT)[0]
    patch(path, position + 12, b"\xff" * 60)
    remedies = [each.remedy for each in checked(world.data).wrong]
    assert not any(each and "written again" in each.says for each in remedies)


@pytest.mark.parametrize("place", [4, 19, 22, 45, 60, TYPE_BYTE, 77])
def test_one_wrong_bit_in_each_marker_is_set_right(world: World, place: int) -> None:
    for path, position, _ in (*markers(world, control.ABORT), *markers(world, control.COMMIT)):
        flip(path, position + place)
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted
    assert read_folder(world.data, committed=True) == world.committed


def test_one_wrong_bit_in_a_batch_of_records_is_set_right(world: World) -> None:
    for path in world.segments("orders", 0):
        position, header = batches_of(path)[0]
        flip(path, position + header.size // 2, 5)
    (finding, *_) = checked(world.data).wrong
    assert "one bit" in finding.what
    mended(world.data)
    assert read_folder(world.data) == world.uncommitted
