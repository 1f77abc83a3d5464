"""`headwater verify` as an application: a session, the view, the comparison, and a note of its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from headwater.pipelines import application
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.connector import connector_for
from headwater.pipelines.context import Context
from headwater.pipelines.handles import handle, placed, the_view
from headwater.pipelines.loading import load, read
from headwater.pipelines.session import require_pyspark
from headwater.pipelines.verifying import Checking, verify
from headwater.views import verified
from headwater.views.position import Position
from headwater.views.verifying import Report
from headwater.views.versions import versions_of


def verified_view(
    order: application.Order,
    name: str,
    say: Callable[[str], None],
    *,
    repair: bool = False,
    version: int | None = None,
    targets: Mapping[str, str] | None = None,
) -> Report:
    """Compare one view with the log; keep up to where it was found to be right."""
    require_pyspark()
    sources = read(order.paths)
    spark = application._session(order, connector_for(sources, order.remote))
    try:
        view = the_view(name, placed(load(sources), targets or {}))
        application._carry_functions(order.paths)
        known = versions_of(handle(view))
        view = replace(view, version=known.current if version is None else known.named(version))
        checkpoints = Checkpoints(order.checkpoints, spark, remote=order.remote is not None)

        def context(position: Position) -> Context:
            return Context(spark, order.bootstrap, order.client, view=view, pinned=position)

        checking = Checking(
            view=view,
            spark=spark,
            context=context,
            checkpoint=Path(checkpoints.of(view.checkpoint)) if checkpoints.is_local else None,
            say=say,
            local=order.remote is None and (order.master or "local").startswith("local"),
        )
        report = verify(checking, repair=repair)
        if report.is_right:
            client = {**order.client, "bootstrap.servers": order.bootstrap}
            where = (view.name, view.version, view.to)
            verified.note(client, *where, report.position, report.rows)
        return report
    finally:
        with suppress(Exception):  # where Spark has ended there is nothing to stop
            spark.stop()
