"""Views in Delta Lake: what every target must do, and what only this one does."""

from __future__ import annotations

import json
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from headwater.testing.target_columns import WideningConformance
from headwater.testing.targets import (
    ADA,
    BOB,
    CAT,
    Make,
    TargetConformance,
    Writer,
    at,
    rows_of,
    shape,
)
from headwater.views.targets.contract import Applied, Fenced, Kind, Misfit
from headwater.views.targets.registry import target_for


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda given: target_for(f"delta:{tmp_path / given.view}", given)


class TestConformance(TargetConformance, WideningConformance):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        return lambda given: target_for(f"delta:{tmp_path / given.view}", given)


def seen(tmp_path: Path) -> deltalake.DeltaTable:
    """What any reader of Delta opens."""
    return deltalake.DeltaTable(tmp_path / "customers" / "current")


def test_a_commit_tells_the_position_to_every_reader_of_delta(make: Make, tmp_path: Path):
    writer = Writer(make(shape()))
    writer.write(0, [ADA, BOB])
    table = seen(tmp_path)
    assert sorted(table.to_pyarrow_table().column("id").to_pylist()) == [1, 2]
    said = json.loads(table.history(1)[0]["headwater"])
    assert said == {"batch": 0, "epoch": writer.epoch, "position": {"customers": {"0": 1}}}
    assert table.transaction_version("headwater-batch") == 1


def test_a_writer_that_is_replaced_between_reading_and_writing_is_fenced(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    old = Writer(make(shape()))
    old.write(0, [ADA])
    part = old.stage(1, 0, [BOB])
    apply, calls = old.target._apply, []

    def late(*given: object) -> None:
        if not calls:  # the old one has looked, and has not written yet
            calls.append(Writer(make(shape())))
        apply(*given)

    monkeypatch.setattr(old.target, "_apply", late)
    with pytest.raises(Fenced):
        old.commit(1, [part])
    assert rows_of(make(shape())) == [ADA]


def test_a_compaction_by_hand_changes_neither_rows_nor_position(make: Make, tmp_path: Path):
    writer = Writer(make(shape(Kind.APPEND)))
    for batch in range(3):
        writer.write(batch, [ADA])
    table = seen(tmp_path)
    table.optimize.compact()
    assert len(seen(tmp_path).file_uris()) == 1
    assert make(shape(Kind.APPEND)).applied() == Applied(2, writer.epoch, at(3))
    writer.write(3, [BOB])
    assert rows_of(writer.target) == [ADA, ADA, ADA, BOB]


def test_small_files_are_joined_every_so_many_batches(make: Make, tmp_path: Path):
    writer = Writer(make(shape(Kind.APPEND, options={"compact_every": "3"})))
    for batch in range(3):
        writer.write(batch, [ADA])
    assert len(seen(tmp_path).file_uris()) == 1
    assert writer.target.applied() == Applied(2, writer.epoch, at(3))


def test_rows_are_appended_in_folders_by_partition(make: Make, tmp_path: Path):
    writer = Writer(make(shape(Kind.APPEND, options={"partition_by": "name"})))
    writer.write(0, [ADA, BOB, CAT])
    table = seen(tmp_path)
    assert table.metadata().partition_columns == ["name"]
    folders = {each.name for each in (tmp_path / "customers" / "v1").iterdir() if each.is_dir()}
    assert folders >= {"name=Ada", "name=Bob"}
    assert rows_of(writer.target) == [ADA, BOB, CAT]


def test_columns_may_have_any_name(make: Make):
    schema = pa.schema([("Order Id", pa.int64()), ("naïve.name", pa.string())])
    writer = Writer(make(shape(schema=schema, key=("Order Id",))))
    writer.write(0, [(1, "a"), (2, "b")])
    writer.write(1, [(1, "c"), (2, None, True)])
    assert rows_of(writer.target) == [(1, "c")]


def test_what_delta_cannot_hold_is_refused_with_its_name(make: Make):
    for kind in (pa.uint32(), pa.time64("us")):
        schema = pa.schema([("id", pa.int64()), ("odd", kind)])
        with pytest.raises(Misfit, match="Delta Lake"):
            make(shape(schema=schema)).create()


def test_a_folder_belongs_to_one_view(make: Make, tmp_path: Path):
    Writer(make(shape())).write(0, [ADA])
    with pytest.raises(Misfit, match="holds the view 'customers'"):
        target_for(f"delta:{tmp_path / 'customers'}", shape(view="others")).create()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(Misfit, match="not a view's"):
        target_for(f"delta:{tmp_path / 'full'}", shape()).create()


def test_a_path_may_have_any_name(tmp_path: Path):
    writer = Writer(target_for(f"delta:{tmp_path}/my naïve 100% table", shape()))
    writer.write(0, [ADA])
    assert rows_of(writer.target) == [ADA]


def test_a_table_that_was_changed_by_hand_is_not_waited_for(make: Make, tmp_path: Path):
    writer = Writer(make(shape()))
    writer.write(0, [ADA])
    part = writer.stage(1, 0, [BOB])
    kept = seen(tmp_path).to_pyarrow_table().drop_columns(["total"])
    deltalake.write_deltalake(
        tmp_path / "customers" / "v1", kept, mode="overwrite", schema_mode="overwrite"
    )
    with pytest.raises(Misfit, match="total"):
        writer.commit(1, [part])
