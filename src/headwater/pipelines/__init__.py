"""Pipelines: plain PySpark functions with names for what comes in and where it goes, kept running.

    vocabulary   stream, table, view: what a pipeline file says        (declarations: what it has said)
    loader       files and folders to declarations, mistakes to sentences
    session      a Spark session with the right settings, on any Java  (java, maven)
    builder      a view's function to a DataFrame that can be started   (plan, tables, targets)
    targets      the places that Spark itself writes to              (stores: all others)
    loop         every query always on: one owner each, restarted with backoff
    progress     what each query did, as records of a topic            (offsets: as a consumer group)

Called by `headwater run` and by notebooks. The log is met through Spark's data source `headwater` and
through Kafka's protocol, never through the broker's code: Apache Kafka does as well.
"""

from __future__ import annotations

from headwater.pipelines.declarations import View
from headwater.pipelines.session import session
from headwater.pipelines.vocabulary import stream, table, view
from headwater.views.targets.registry import register

register("topic", f"{__name__}.targets:TopicTarget", is_store=False)
register("parquet", f"{__name__}.targets:ParquetTarget", is_store=False)
register("memory", f"{__name__}.targets:MemoryTarget", is_store=False)
register("console", f"{__name__}.targets:ConsoleTarget", is_store=False)

__all__ = ["View", "session", "stream", "table", "view"]
