"""What a target is handed when a view has been built: its DataFrame, and all that belongs to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.pipelines.context import Context
from headwater.pipelines.declared import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Result:
    """Of one view's function."""

    frame: DataFrame
    view: View
    rest: str
    """Of the view's `to`, after the colon."""
    context: Context
    updates: bool
    """Whether a row may come again with other values, so that a key is needed."""
