"""Views brought up to date on the tests' own Spark session."""

from __future__ import annotations

from headwater.pipelines.declarations import View
from headwater.pipelines.query import ENDED, State
from tests.spark.run.desk import Desk


def finish(desk: Desk, *views: View) -> None:
    """Bring views up to date, as `headwater run --once` does."""
    for query in desk.begin(*views, once=True):
        desk.step_until(lambda query=query: query.state is not State.WAITING, "a start")
        desk.step_until(lambda query=query: query.state in ENDED, "the end")
        assert query.state is State.FINISHED, desk.said
