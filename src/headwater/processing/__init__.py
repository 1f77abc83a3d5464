"""Processing streams: what PySpark lacks for time, windows, joins, patterns and search over the log.

    from headwater import processing as p

    event_stream   a topic in event time: watermark, late topic, idle sources    (event_time: its source)
    windows        tumbling, hopping, session_window; `sliding`: for each event, the last so and so long
    clocks         devices with wrong clocks
    aggregate      aggregates by window that late events can correct             (aggregates, revisions)
    sketches       distinct counts, percentiles, heavy hitters, membership; mergeable, kept in views
    joins          streams within a time range, and with tables as they were at the event's time
    patterns       sequences of events, as MATCH_RECOGNIZE finds them
    percolator     documents against stored queries
    request_reply  questions and answers over the log

Each operator takes and gives DataFrames; what is in between is plain PySpark. Loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.lazy_names import lazy_names

if TYPE_CHECKING:
    from headwater.processing import joins as joins
    from headwater.processing import patterns as patterns
    from headwater.processing import percolator as percolator
    from headwater.processing import request_reply as request_reply
    from headwater.processing.aggregates import approx_count_distinct as approx_count_distinct
    from headwater.processing.aggregates import approx_percentile as approx_percentile
    from headwater.processing.aggregates import avg as avg
    from headwater.processing.aggregates import count as count
    from headwater.processing.aggregates import max as max
    from headwater.processing.aggregates import mean as mean
    from headwater.processing.aggregates import min as min
    from headwater.processing.aggregates import sum as sum
    from headwater.processing.clocks import corrected as corrected
    from headwater.processing.clocks import corrected_time as corrected_time
    from headwater.processing.event_time.events import event_stream as event_stream
    from headwater.processing.revisions import aggregate as aggregate
    from headwater.processing.sketches import Distinct as Distinct
    from headwater.processing.sketches import Frequencies as Frequencies
    from headwater.processing.sketches import Members as Members
    from headwater.processing.sketches import Percentiles as Percentiles
    from headwater.processing.sketches import Sets as Sets
    from headwater.processing.sketches import Top as Top
    from headwater.processing.sketches import rate as rate
    from headwater.processing.sliding_windows import sliding as sliding
    from headwater.processing.windows import Window as Window
    from headwater.processing.windows import hopping as hopping
    from headwater.processing.windows import session_window as session_window
    from headwater.processing.windows import tumbling as tumbling

_HOME = {
    "Distinct": "headwater.processing.sketches",
    "Frequencies": "headwater.processing.sketches",
    "Members": "headwater.processing.sketches",
    "Percentiles": "headwater.processing.sketches",
    "Sets": "headwater.processing.sketches",
    "Top": "headwater.processing.sketches",
    "Window": "headwater.processing.windows",
    "aggregate": "headwater.processing.revisions",
    "approx_count_distinct": "headwater.processing.aggregates",
    "approx_percentile": "headwater.processing.aggregates",
    "avg": "headwater.processing.aggregates",
    "corrected": "headwater.processing.clocks",
    "corrected_time": "headwater.processing.clocks",
    "count": "headwater.processing.aggregates",
    "event_stream": "headwater.processing.event_time.events",
    "hopping": "headwater.processing.windows",
    "joins": "headwater.processing.joins",
    "max": "headwater.processing.aggregates",
    "mean": "headwater.processing.aggregates",
    "min": "headwater.processing.aggregates",
    "patterns": "headwater.processing.patterns",
    "percolator": "headwater.processing.percolator",
    "rate": "headwater.processing.sketches",
    "request_reply": "headwater.processing.request_reply",
    "session_window": "headwater.processing.windows",
    "sliding": "headwater.processing.sliding_windows",
    "sum": "headwater.processing.aggregates",
    "tumbling": "headwater.processing.windows",
}
_OLD = {
    "distinct": "approx_count_distinct",
    "events": "event_stream",
    "maximum": "max",
    "minimum": "min",
    "percentiles": "approx_percentile",
    "session": "session_window",
    "total": "sum",
}
"""Names of the release before, which warn."""

__all__ = [
    "Distinct",
    "Frequencies",
    "Members",
    "Percentiles",
    "Sets",
    "Top",
    "Window",
    "aggregate",
    "approx_count_distinct",
    "approx_percentile",
    "avg",
    "corrected",
    "corrected_time",
    "count",
    "event_stream",
    "hopping",
    "joins",
    "max",
    "mean",
    "min",
    "patterns",
    "percolator",
    "rate",
    "request_reply",
    "session_window",
    "sliding",
    "sum",
    "tumbling",
]

__getattr__, __dir__ = lazy_names(__name__, _HOME, old=_OLD)
