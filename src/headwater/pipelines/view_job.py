"""One declared view with a Spark of its own: `headwater rebuild`, `verify` and `rows --as-of`, where no
application runs that could do it (`control_server`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from headwater.pipelines import application
from headwater.pipelines.declarations import View
from headwater.pipelines.handles import placed, the_view
from headwater.pipelines.launch import session_for
from headwater.pipelines.loader import Source, load, read
from headwater.pipelines.maven import connector_for
from headwater.pipelines.session import require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ViewJob(NamedTuple):
    spark: SparkSession
    view: View
    sources: Sequence[Source]


@contextmanager
def view_job(
    order: application.Order, name: str, targets: Mapping[str, str] | None
) -> Iterator[ViewJob]:
    """The session ends with the job. `targets`: where views live instead of where their files say."""
    require_pyspark()
    sources = read(order.paths)
    spark = session_for(order, connector_for(sources, order.remote))
    try:
        view = the_view(name, placed(load(sources), targets or {}))
        application.carry_functions(order.paths)
        yield ViewJob(spark, view, sources)
    finally:
        with suppress(Exception):  # where Spark has ended there is nothing to stop
            spark.stop()
