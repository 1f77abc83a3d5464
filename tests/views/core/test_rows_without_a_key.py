"""A row of a view over tables that has no key is told, and nothing of its batch is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.client.position import Position
from headwater.views.applier import Applying, RowRefused
from headwater.views.targets.contract import Shape
from headwater.views.targets.registry import target_for

SCHEMA = pa.schema([("city", pa.string()), ("orders", pa.int64())])
NO_SPARK: Any = None


def applying(tmp_path: Path) -> Applying:
    shape = Shape("by_city", SCHEMA, ("city",))
    return Applying(target_for(f"sqlite:{tmp_path / 'views.db'}", shape), str(tmp_path))


def rows(*given: tuple[str | None, int | None, bool]) -> pa.Table:
    columns = list(zip(*given, strict=True))
    names = [*SCHEMA.names, "_deleted"]
    return pa.table(dict(zip(names, map(list, columns), strict=True))).cast(
        pa.schema([*SCHEMA, ("_deleted", pa.bool_())])
    )


def stored(view: Applying) -> list[dict[str, Any]]:
    with view.target.reading() as (_, batches):
        return [row for batch in batches for row in batch.to_pylist()]


def test_a_row_without_a_key_is_refused_with_its_reason(tmp_path: Path) -> None:
    view = applying(tmp_path)
    with pytest.raises(RowRefused, match="its key city is null"):
        view.apply_rows(rows(("Oslo", 2, False), (None, 1, False)), 0, Position(), NO_SPARK)
    assert stored(view) == []
