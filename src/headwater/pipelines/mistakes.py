"""A failure that says something of the query itself: one that trying again would not mend.

Asked by `query` whenever Spark reports a failure, or does not take a query at all.

`Backoff` says how long a failed query waits before it is tried again: one second after the first failure,
twice as long after each further one, a minute at most. A query that has then finished a batch, and has run
for as long as it would have waited next and at least ten seconds, has recovered. Time alone says nothing:
the batch that fails may take a while to do so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.declarations import REAL_TIME, View
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
        hint="correct the file and run it again",
    )


FIRST_S, MOST_S, CALM_S = 1.0, 60.0, 10.0


@dataclass(frozen=True)
class Backoff:
    failures: int = 0

    def failed(self, ran_s: float, *, batches: int) -> Backoff:
        """After a failure of a query that had run for `ran_s` and finished so many batches."""
        calm = batches > 0 and ran_s >= max(CALM_S, self.after(self.failures + 1))
        return replace(self, failures=1 if calm else self.failures + 1)

    @property
    def wait_s(self) -> float:
        """How long to wait now."""
        return self.after(self.failures)

    @staticmethod
    def after(failures: int) -> float:
        return min(MOST_S, FIRST_S * 2 ** min(failures - 1, 10)) if failures > 0 else 0.0
