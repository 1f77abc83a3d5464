"""A failure that says something of the query itself: one that trying again would not mend.

Asked by `query` whenever Spark reports a failure, or does not take a query at all.
"""

from __future__ import annotations

from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.declared import REAL_TIME, View
from headwater.pipelines.errors import NotRealTime, PipelineError, brief, misfit, told_to_stop


def mistake(view: View, checkpoints: Checkpoints, text: str) -> PipelineError | None:
    """What is wrong, as a sentence; None for a failure that may pass."""
    if (difference := misfit(text)) is not None:
        return checkpoints.misfit(view.checkpoint, difference)
    if (stopped := told_to_stop(text)) is not None:
        return PipelineError(f"the view {view.name!r} ({view.place}): {stopped}")
    if (mark := "[STREAMING_REAL_TIME_MODE") in text:
        return not_possible(view, brief(text[text.index(mark) :]))
    return None


def not_possible(view: View, reason: str) -> PipelineError:
    """Spark does not take the query."""
    said = reason.removeprefix("AnalysisException: ").rstrip(".;")
    if view.speed == REAL_TIME:
        return NotRealTime(
            f"the view {view.name!r} ({view.place}) cannot run at real-time speed: {said}",
            hint="leave out speed= to run it in micro-batches",
        )
    return PipelineError(
        f"the view {view.name!r} ({view.place}) cannot run as a stream: {said}",
        hint="mend the file and run it again",
    )
