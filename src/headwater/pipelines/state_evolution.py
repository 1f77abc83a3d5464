"""New columns for a view over tables: whether the state of its tables can get them, and their coming there.

Asked by `evolution`, which knows that the view's topics have got columns; done before the query starts again.
Rows that the state has are as a rebuild would read them: of Avro, with the column's default. The view is then
computed as a whole once (`views.tables.new_columns`), so that it is what its function makes of them.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING

from headwater.pipelines import cluster
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import View
from headwater.pipelines.schema_trials import Trial
from headwater.pipelines.table_views import Tables, plan_for
from headwater.schemas.model import AVRO

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from headwater.schemas.values.codecs import Found
    from headwater.schemas.values.header import Json
    from headwater.views.tables.decoder import Table
    from headwater.views.tables.new_columns import Default
    from headwater.views.tables.plan import Plan

ROWS_MAX = 1_000_000
"""Of all its tables: the view is computed as a whole, and all of its rows are written again."""
_PLAIN = ("boolean", "int", "bigint", "float", "double", "string")


def hindrance(view: View, was: Trial, now: Trial) -> str:
    """Why the state cannot get the columns; empty where it can. PipelineError where there is no plan."""
    from headwater.views.tables import new_columns

    if was.tables is None or now.tables is None:
        return ""
    if cluster.keeps_shared_state(view, now.context):
        return "executors keep the state of its tables"
    old, new = (plan_for(view, each.frame, each.tables) for each in (was, now) if each.tables)
    if old.aggregation is not None or new.aggregation is not None:
        return "it keeps totals by its columns"
    if not _is_wider(old, new):
        return "its tables would be kept in another form"
    for before, table in zip(old.tables, new.tables, strict=True):
        if (odd := _odd_default(now.context, before, table)) is not None:
            return f"{odd} has a default that rows of before get by a rebuild only"
    folder = cluster.state_folder(view, now.context) / cluster.TABLES
    if (rows := new_columns.rows(folder, len(new.tables))) > ROWS_MAX:
        return f"its tables have {rows} rows"
    return ""


def widen(view: View, context: Context, frame: DataFrame, tables: Tables) -> None:
    """Before the query starts: bring its state to the columns that its tables have now."""
    from headwater.views.tables import new_columns

    plan = plan_for(view, frame, tables)
    folder = cluster.state_folder(view, context) / cluster.TABLES
    new_columns.widen(
        folder, plan.columns, [_by_number(context, t) for t in plan.tables], plan.query
    )


def _by_number(context: Context, table: Table) -> dict[str, Default]:
    """Of columns that were there before it is not asked for, and may be anything."""
    given, said = _defaults(context, table), {}
    for name, value in given.items():
        with suppress(ValueError):
            said[f"c{table.row.names.index(name)}"] = _sql_default(table, name, value)
    return said


def query_digest(frame: DataFrame) -> str:
    """Of a view over tables: another where its function is."""
    from headwater.views.tables.planner import query_text

    return hashlib.sha256(query_text(frame).encode()).hexdigest()


def _is_wider(old: Plan, new: Plan) -> bool:
    """Whether all that a state has is at its place in the other one, and more beside it."""

    def kept(plan: Plan) -> list[tuple[object, ...]]:
        return [(each.topic, each.keys, each.derived) for each in plan.tables]

    def known(columns: pa.Schema) -> set[tuple[str, str]]:
        return {(each.name, str(each.type)) for each in columns}

    same = kept(old) == kept(new)
    pairs = zip(old.columns, new.columns, strict=True)
    return same and all(known(before) <= known(after) for before, after in pairs)


def _defaults(context: Context, table: Table) -> dict[str, Json]:
    """What records that lack a column have there, by the table's schema; null where it does not say."""
    from headwater.spark.source.values.query_schemas import lookup

    described = context.described.get(f"table {table.topic}")
    if described is None or described.id is None:
        return {}
    found = lookup(described.options["registry"]).by_id(described.id)
    if found is None or found.schema.kind != AVRO:
        return {}
    return {name: each for name, each in _avro_defaults(found).items() if name in table.row.names}


def _sql_default(table: Table, name: str, value: Json) -> Default:
    """Raises ValueError where SQL cannot say it."""
    if value is None:
        return None
    kind = table.row[name].dataType.simpleString()
    if kind not in _PLAIN or not isinstance(value, bool | int | float | str):
        raise ValueError(name)
    return value


def _odd_default(context: Context, old: Table, new: Table) -> str | None:
    """A column that the table has got, with a default that SQL cannot say."""
    for name, value in _defaults(context, new).items():
        try:
            _ = name in old.row.names or _sql_default(new, name, value)
        except ValueError:
            return name
    return None


def _avro_defaults(found: Found) -> dict[str, Json]:
    """Of the columns of a row; of an envelope, of the row after a change."""
    from headwater.spark.source.values.registry_types import ENVELOPE

    fields = {each["name"]: each for each in json.loads(found.schema.text)["fields"]}
    if all(name in fields for name in ENVELOPE):
        # One of the two has the record itself, the other may have its name.
        kinds = [fields[name]["type"] for name in ("before", "after")]
        branches = [each for kind in kinds for each in (kind if isinstance(kind, list) else [kind])]
        rows = [each for each in branches if isinstance(each, dict) and "fields" in each]
        fields = {each["name"]: each for row in rows for each in row["fields"]}
    return {name: each.get("default") for name, each in fields.items()}
