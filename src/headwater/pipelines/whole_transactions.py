"""A view over tables that shows source transactions whole (`transactions=`); called by `table_views`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.client import topics as log_topics
from headwater.client.log import Log
from headwater.client.options import Options
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.views.source_transactions import WholeTransactions


TRANSACTIONS = "transactions"
"""Option: the capture's topic of BEGIN and END; source transactions are then applied as a whole."""


def whole_transactions(
    view: View,
    context: Context,
    inner: Callable[[DataFrame, int], None],
    checkpoint: Path,
    topics: Sequence[str],
) -> WholeTransactions:
    """Hands a batch on to `inner` as far as its transactions are whole."""
    from headwater.views.source_transactions import WholeTransactions

    _refuse_compacted(view, context, topics)
    marks = view.options[TRANSACTIONS]
    return WholeTransactions(inner, checkpoint, marks, topics, lambda: _log_ends(context, topics))


def _refuse_compacted(view: View, context: Context, topics: Sequence[str]) -> None:
    """Of a transaction's events there compaction keeps some: as many as END counted never come."""
    with Log(context.bootstrap, context.client) as log:
        for topic in topics:
            if log_topics.is_compacted(log, topic):
                raise PipelineError(
                    f"the view {view.name!r} ({view.place}) asks for whole transactions, and {topic} is "
                    "compacted: it does not keep all that a transaction changed",
                    hint="leave out the option transactions, or give the topic cleanup.policy=delete and "
                    "retention.ms=-1 before it is filled",
                )


def _log_ends(context: Context, topics: Sequence[str]) -> dict[str, dict[int, int]]:
    """Where topics end now, uncommitted records included."""
    from headwater.client import cluster as connect

    cluster = connect.cluster(Options(context.kafka_options()).client_settings())
    known = cluster.metadata(list(topics)).topics
    places = [(name, partition) for name in known for partition in known[name].leaders]
    found: dict[str, dict[int, int]] = {}
    for (topic, partition), end in cluster.list_offsets(
        dict.fromkeys(places, connect.LATEST)
    ).items():
        found.setdefault(topic, {})[partition] = end
    return found
