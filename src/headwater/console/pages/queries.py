"""Queries: what Spark does with the log; rates, time per batch, watermark, state, the last error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import ui

from headwater.console import elements
from headwater.console.addresses import link
from headwater.console.cards import Cards, Said, StateWord
from headwater.console.charts import Chart
from headwater.console.context import Visit
from headwater.console.flow.graph import rows_per_second
from headwater.console.live import keep
from headwater.console.pages import Page
from headwater.console.sentences import ago, duration, number, short, size
from headwater.console.watching.queries import QueryNow

TONES: dict[str, elements.Tone] = {
    "running": "good",
    "failed": "bad",
    "refused": "bad",
    "silent": "bad",
    "stopped": "warn",
}


def show(visit: Visit) -> None:
    elements.heading("Queries", "What Spark reads from the log, and what it makes of it.")
    absent = elements.absent(
        "No query has reported to this log yet.",
        "headwater run PATH starts those of a file; headwater up those of a project.",
        icon="bolt",
    )
    absent.set_visibility(False)
    chosen = visit.query.get("name")
    cards = Cards[QueryNow](
        lambda q: q.name, lambda q: _Card(q, chosen=q.name == chosen), "hw-grid-wide"
    )

    def draw(found: Sequence[QueryNow]) -> None:
        absent.set_visibility(not found)
        cards.draw(sorted(found, key=lambda q: q.name != chosen))

    keep(visit.context.watch.queries.now, draw, 1.0)


class _Card:
    """One query."""

    def __init__(self, query: QueryNow, *, chosen: bool) -> None:
        self.element = ui.element("section").classes("hw-card" + (" hw-chosen" if chosen else ""))
        self.element.props["aria-label"] = f"Query {query.name}"
        with self.element:
            with ui.element("div").classes("hw-row"):
                ui.label(query.name).classes("hw-title")
                self._state = StateWord()
            with ui.element("div").classes("hw-row hw-small"):
                self._since = ui.label().classes("hw-soft")
                ui.link(f"to {query.to}", link("/views", name=query.name)).classes("hw-wrap")
            self._error = Said("hw-wrong hw-wrap", role="alert")
            with ui.element("div").classes("hw-figures"):
                self._rate = elements.figure("Rows in", "–")
                self._batch = elements.figure("Longest batch", "–")
                self._fresh = elements.figure("Freshness", "–")
                self._behind = elements.figure("Behind the log", "–")
                self._watermark = elements.figure("Watermark", "–")
                self._held = elements.figure("State", "–")
                self._late = elements.figure("Late rows", "–")
            self._chart = Chart("Rows per second", "Time per batch, ms")
            with ui.expansion("Times of the last batch").classes("full-width hw-small"):
                self._times = ui.label().classes("hw-lines")

    def update(self, now: QueryNow) -> None:
        last: Any = now.last or {}
        self._state.set(now.state, TONES.get(now.state, "calm"))
        self._since.set_text(f"since {ago(now.since_ms)}")
        self._error.set(now.error)
        self._rate.set_text(f"{short(rows_per_second(now))}/s")
        batches = [each for each in now.history if each.get("batches")]
        self._batch.set_text(_milliseconds(batches[-1]["batch_ms_max"] if batches else None))
        is_idle = last.get("lag_records") == 0 and not last.get("batches")
        self._fresh.set_text("up to date" if is_idle else _seconds(last.get("freshness_seconds")))
        self._behind.set_text(_behind(last))
        self._watermark.set_text(_watermark(last.get("watermark")))
        rows, held = last.get("state_rows"), last.get("state_bytes")
        self._held.set_text(f"{short(rows)} rows, {size(held)}" if rows else "none")
        self._late.set_text(number(sum(int(each.get("late_rows") or 0) for each in now.history)))
        self._times.set_text(_times(last.get("durations_ms") or {}))
        self._chart.set(*lines_of(now))


def lines_of(now: QueryNow) -> tuple[list[float], list[float], list[float]]:
    """When, rows per second, and time per batch; nothing where there was no batch: the last is not now."""
    told = [(each, bool(each.get("batches"))) for each in now.history]
    return (
        [float(each["at_ms"]) for each, _ in told],
        [float(each.get("processed_rows_per_second") or 0) if did else 0.0 for each, did in told],
        [float(each.get("batch_ms_max") or 0) if did else 0.0 for each, did in told],
    )


def _behind(last: dict[str, Any]) -> str:
    records, seconds = last.get("lag_records"), last.get("lag_seconds")
    if records is None:
        return "–"
    if not records:
        return "nothing"
    return f"{short(records)} records" + (f", {duration(seconds)}" if seconds else "")


def _seconds(value: float | None) -> str:
    return "–" if value is None else duration(value)


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else duration(value / 1000)


def _watermark(text: str | None) -> str:
    if not text or text.startswith("1970"):
        return "none"
    return text.replace("T", " ").partition(".")[0] + " UTC"


def _times(durations: dict[str, Any]) -> str:
    width = max(map(len, durations), default=0)
    return "\n".join(f"{name.ljust(width)}  {ms:>8,} ms" for name, ms in durations.items())


PAGES = [Page("/queries", "Queries", show, icon="bolt", order=40)]
