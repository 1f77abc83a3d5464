"""What is to be reached, row by row, and how it was before: against these a run is judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

Figures = dict[str, float]


@dataclass(frozen=True)
class Goal:
    """One figure of one row."""

    row: str
    figure: str
    what: str
    before: str
    bound: float | None
    """None: told beside the others."""
    at_least: bool = False
    unit: str = "s"

    def is_met(self, found: float) -> bool:
        assert self.bound is not None
        return found >= self.bound if self.at_least else found <= self.bound

    def shown(self, figure: float) -> str:
        if self.unit == "s":
            return f"{figure * 1000:,.0f} ms" if figure < 10 else f"{figure:,.1f} s"
        if self.unit == "%":
            return f"{figure * 100:.1f} %"
        return f"{figure:,.3g} {self.unit}" if figure < 100 else f"{figure:,.0f} {self.unit}"


_TWO_TABLES = "one view over two tables"
_OPERATE = "beside a running project"
GOALS = (
    Goal("one", "p50_s", f"{_TWO_TABLES}, p50", "1.5 s", 0.25),
    Goal("one", "p99_s", f"{_TWO_TABLES}, p99", "2.8 s", 1.0),
    Goal("demo", "p50_s", "the demo, p50", "4.6 s", 0.5),
    Goal("demo", "p99_s", "the demo, p99", "8.5 s", 1.5),
    Goal("demo", "back_s", "the demo, back after a kill", "–", 3.0),
    Goal("demo", "first_s", "the demo, from start to the first view", "–", 10.0),
    Goal("demo", "ready_s", "the demo, to the first rows of all four", "28–29.5 s", 10.0),
    Goal("demo", "sessions_fresh_s", "the demo, sessions, as the view tells", "3.1–3.5 s", None),
    Goal("demo", "revenue_per_minute_fresh_s", "the demo, revenue, likewise", "3.1–3.5 s", None),
    Goal("stateless", "p50_s", "a stateless view, p50", "–", 0.15),
    Goal("topic", "p50_s", "a stateless view into a topic, p50", "–", 0.15),
    Goal("ten", "p50_s", "ten views, p50 of the slowest", "–", None),
    Goal("ten", "to_one", "ten views, p50 beside that of one", "–", 2.0, unit="times"),
    Goal("idle", "cpu_cores", "four views that have nothing to do", "–", 0.03, unit="%"),
    Goal("join", "per_s", "large batches, 1 M × 1 M", "53k rows/s", 150e3, True, "rows/s"),
    Goal("join", "per_cpu_s", "large batches, 1 M × 1 M, by CPU", "–", None, True, "rows/CPU s"),
    Goal("groups", "cpu_s", "1,000 changes of five groups, 10 M rows", "4 s of CPU", None),
    Goal(
        "groups",
        "to_small",
        "the same changes beside those over 100,000 rows",
        "–",
        2.0,
        unit="times",
    ),
    Goal("rebuild", "per_s", "rebuild of 5 M changes", "75–83k/s", 250e3, True, "changes/s"),
    Goal("rebuild", "cpu_s", "rebuild of 5 M changes, CPU", "–", None),
    Goal(
        "rebuild", "table_per_s", "the same, of the table as it is", "–", 250e3, True, "changes/s"
    ),
    Goal("rebuild", "table_cpu_s", "the same, CPU", "–", None),
    Goal("operate", "verify_s", f"verify {_OPERATE}", "35–49 s", 3.0),
    Goal("operate", "verify_cpu_s", f"verify {_OPERATE}, CPU", "–", None),
    Goal("operate", "rebuild_s", f"rebuild of 33,000 records {_OPERATE}", "60 s", 5.0),
    Goal("operate", "rebuild_cpu_s", "rebuild of 33,000 records, CPU", "–", None),
    Goal("touched", "more_mb", "one change of 1 M rows of a view, memory", "all", None, unit="MB"),
    Goal("touched", "seconds", "one change of 1 M rows of a view, time", "–", None),
)
ROWS = tuple(dict.fromkeys(goal.row for goal in GOALS))


def lines(found: Mapping[str, Figures], rows: Iterable[str] = ROWS) -> Iterator[str]:
    """A table: before, now, to reach."""
    yield f"{'':<52} {'before':>12} {'now':>16} {'to reach':>18}"
    for goal in GOALS:
        if goal.row not in rows:
            continue
        figure = found.get(goal.row, {}).get(goal.figure)
        now = "not measured" if figure is None else goal.shown(figure)
        wanted = verdict = ""
        if goal.bound is not None:
            wanted = f"{'≥' if goal.at_least else '≤'} {goal.shown(goal.bound)}"
            if figure is not None:
                verdict = "reached" if goal.is_met(figure) else "missed"
        yield f"{goal.what:<52} {goal.before:>12} {now:>16} {wanted:>18}  {verdict}".rstrip()
