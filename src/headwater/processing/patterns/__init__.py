"""Patterns in streams: `match` finds sequences of rows per key in event time.

    text of a pattern ─▶ syntax ─▶ automaton ─┐
    conditions, measures ─▶ expressions ──────┴▶ plan ─▶ frames (Spark) ─▶ running ─▶ bucket ─▶ machine

`syntax` to `plan` and `machine` are pure and know nothing of Spark.
"""

from __future__ import annotations

from headwater.processing.patterns.errors import OtherPattern as OtherPattern
from headwater.processing.patterns.errors import PatternError as PatternError
from headwater.processing.patterns.errors import TooManyWays as TooManyWays
from headwater.processing.patterns.matching import match as match

__all__ = ["OtherPattern", "PatternError", "TooManyWays", "match"]
