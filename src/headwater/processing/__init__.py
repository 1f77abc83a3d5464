"""Processing streams: what PySpark lacks for time, windows, joins, patterns and search over the log.

    from headwater import processing as p

    events     a topic in event time: watermark, late topic, idle sources    (timed: its source)
    windows    tumbling, hopping, session; `sliding`: for each event, the last so and so long
    clocks     devices with wrong clocks
    aggregate  aggregates by window that late events can correct             (aggregates, revising)
    sketches   distinct counts, percentiles, heavy hitters, membership; mergeable, kept in views
    joins      streams within a time range, and with tables as they were at the event's time
    searching  documents against stored queries
    asking     request and reply over the log

Each operator takes and gives DataFrames; what is in between is plain PySpark. Loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.processing.aggregates import count as count
    from headwater.processing.aggregates import distinct as distinct
    from headwater.processing.aggregates import maximum as maximum
    from headwater.processing.aggregates import mean as mean
    from headwater.processing.aggregates import minimum as minimum
    from headwater.processing.aggregates import percentiles as percentiles
    from headwater.processing.aggregates import total as total
    from headwater.processing.clocks import corrected as corrected
    from headwater.processing.clocks import corrected_time as corrected_time
    from headwater.processing.revising import aggregate as aggregate
    from headwater.processing.sketches import Distinct as Distinct
    from headwater.processing.sketches import Frequencies as Frequencies
    from headwater.processing.sketches import Members as Members
    from headwater.processing.sketches import Percentiles as Percentiles
    from headwater.processing.sketches import Sets as Sets
    from headwater.processing.sketches import Top as Top
    from headwater.processing.sketches import rate as rate
    from headwater.processing.sliding_windows import sliding as sliding
    from headwater.processing.timed.events import events as events
    from headwater.processing.windows import hopping as hopping
    from headwater.processing.windows import session as session
    from headwater.processing.windows import tumbling as tumbling

_HOME = {
    "Distinct": "sketches",
    "Frequencies": "sketches",
    "Members": "sketches",
    "Percentiles": "sketches",
    "Sets": "sketches",
    "Top": "sketches",
    "aggregate": "revising",
    "corrected": "clocks",
    "corrected_time": "clocks",
    "count": "aggregates",
    "distinct": "aggregates",
    "events": "timed.events",
    "hopping": "windows",
    "maximum": "aggregates",
    "mean": "aggregates",
    "minimum": "aggregates",
    "percentiles": "aggregates",
    "rate": "sketches",
    "session": "windows",
    "sliding": "sliding_windows",
    "total": "aggregates",
    "tumbling": "windows",
}

__all__ = [*_HOME]


def __getattr__(name: str) -> object:
    if name in ("asking", "joins", "searching"):
        return import_module(f"headwater.processing.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'headwater.processing' has no attribute {name!r}")
    return getattr(import_module(f"headwater.processing.{_HOME[name]}"), name)
