"""Patterns in streams: `match` finds sequences of rows per key in event time.

    text of a pattern ─▶ syntax ─▶ automaton ──────────┐
    conditions, measures ─▶ expressions ─▶ analysis ───┴▶ plan ─▶ frames ─▶ running ─▶ bucket ─▶ machine

`syntax`, `expressions`, `plan` and `machine` are pure and know nothing of Spark; `analysis` asks it what
conditions and measures mean, `frames` gives it the work.
"""

from __future__ import annotations

from headwater.processing.patterns.errors import NoResult as NoResult
from headwater.processing.patterns.errors import OtherPattern as OtherPattern
from headwater.processing.patterns.errors import PatternError as PatternError
from headwater.processing.patterns.errors import TooManyWays as TooManyWays
from headwater.processing.patterns.matcher import match as match

__all__ = ["NoResult", "OtherPattern", "PatternError", "TooManyWays", "match"]
