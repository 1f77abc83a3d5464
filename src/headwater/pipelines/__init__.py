"""Pipelines: plain PySpark functions with names for what comes in and where it goes, kept running.

    vocabulary   stream, table, view: what a pipeline file says        (declarations: what it has said)
    loader       files and folders to declarations, mistakes to sentences
    session      a Spark session with the right settings, on any Java  (java, maven)
    builder      a view's function to a DataFrame that can be started   (plan, tables, targets)
    loop         every query always on: one owner each, restarted with backoff
    progress     what each query did, as records of a topic            (offsets: as a consumer group)

Called by `headwater run` and by notebooks. The log is met through Spark's data source `headwater` and
through Kafka's protocol, never through the broker's code: Apache Kafka does as well.
"""

from __future__ import annotations

from headwater.pipelines.declarations import View
from headwater.pipelines.session import session
from headwater.pipelines.vocabulary import stream, table, view

__all__ = ["View", "session", "stream", "table", "view"]
