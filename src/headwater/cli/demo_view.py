"""How the demo looks: bars and a table on a terminal, one plain line per fact elsewhere.

Called by the `demo` command; the only file of the command line that imports rich.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from headwater.project.demo import Audience, ShopFound, Summary
from headwater.project.demo.summary import ViewFreshness


@contextmanager
def audience_for(*, quiet: bool) -> Iterator[Audience]:
    """Bars go to a terminal; a pipe gets lines; with --json stdout is left to the JSON."""
    console = Console(stderr=quiet)
    if console.is_terminal:
        with _Bars(console) as bars:
            yield bars
    elif quiet:
        yield _Nobody()
    else:
        yield _Lines()


class _Nobody:
    def begin(self, what: str, total: int | None = None) -> None: ...

    def advance(self, done: int, note: str = "") -> None: ...

    def end(self, outcome: str) -> None: ...


class _Lines:
    """`Producing ... 200,000 records in 0.61 s`, and a percentage every few seconds between."""

    INTERVAL_S = 2.0

    def begin(self, what: str, total: int | None = None) -> None:
        self._what, self._total = what, total
        self._told = time.monotonic()

    def advance(self, done: int, note: str = "") -> None:
        if time.monotonic() - self._told < self.INTERVAL_S:
            return
        self._told = time.monotonic()
        of = f" of {self._total:,}" if self._total else ""
        count = f"{done:,}{of}" if done or self._total else ""
        self._say(f"{', '.join(filter(None, (count, note)))} ...")

    def end(self, outcome: str) -> None:
        self._say(outcome)

    def _say(self, words: str) -> None:
        print(f"{self._what + ':':<29}{words}", flush=True)


class _Bars:
    """One bar per step; a finished one stays with its outcome."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓[/green]"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[note]}[/dim]"),
            console=console,
            transient=True,
        )
        self._console = console
        self._task: TaskID | None = None
        self._what = ""

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, what: str, total: int | None = None) -> None:
        self._what = what
        self._task = self._progress.add_task(what, total=total, note="")

    def advance(self, done: int, note: str = "") -> None:
        assert self._task is not None
        self._progress.update(self._task, completed=done, note=note)

    def end(self, outcome: str) -> None:
        assert self._task is not None
        self._progress.remove_task(self._task)
        self._progress.console.print(
            f"[green]✓[/green] {self._what:<27} [dim]{outcome}[/dim]", highlight=False
        )


def print_summary(summary: Summary, *, kept: bool) -> None:
    """The facts as a table, then the verdict in one sentence."""
    facts = _facts(summary, kept=kept)
    console = Console()
    if console.is_terminal:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for name, fact in facts:
            table.add_row(name, fact)
        console.print()
        console.print(table)
        console.print()
        style = "bold green" if summary.verified else "bold red"
        console.print(_verdict(summary), style=style, highlight=False)
    else:
        print()
        for name, fact in facts:
            print(f"{name + ':':<29}{fact}")
        print(f"\n{_verdict(summary)}", flush=True)


def _facts(summary: Summary, *, kept: bool) -> list[tuple[str, str]]:
    before = summary.acknowledged_before_kill
    rate_before = before / max(summary.produce_before_kill_s, 1e-9)
    rate_replay = summary.replayed / max(summary.replay_s, 1e-9)
    waits = "the disk (fdatasync)" if summary.durability == "disk" else "the operating system"
    place = summary.data if kept else "a temporary folder, now removed; --data DIR keeps it"
    facts = [
        ("Records", f"{summary.produced:,} of 100 bytes, {summary.partitions} partitions"),
        ("Durability", f"acks=all, idempotent; acknowledged after {waits}"),
        ("Start", f"{_ms(summary.start_s)} from exec to the first answer"),
        ("Produced", f"{_rate(rate_before)} up to the kill, {summary.produce_s:.2f} s in all"),
        (
            "Kill -9",
            f"{before:,} acknowledged, {summary.unacknowledged_at_kill:,} under way; "
            f"up again after {_ms(summary.restart_s)}",
        ),
        ("Replayed", f"{summary.replayed:,} from offset 0, {_rate(rate_replay)}"),
        (
            "Compared",
            f"{summary.lost} lost, {summary.duplicated} doubled, {summary.different} different, "
            f"{summary.out_of_order} out of order",
        ),
        ("Checksum", f"{summary.checksum}, one per partition"),
        ("Stop", f"{_ms(summary.stop_s)} after SIGTERM, all flushed"),
        ("Files", f"{summary.data_bytes / 1e6:,.1f} MB in {place}"),
    ]
    if summary.left_out is not None:
        facts.append(("Shop", f"left out: {summary.left_out}"))
    if summary.shop is not None:
        facts += _shop(summary.shop)
    if summary.resident_bytes is not None:
        facts.insert(9, ("Memory", f"{summary.resident_bytes / 1e6:,.0f} MB resident after it"))
    return facts


def _shop(found: ShopFound) -> list[tuple[str, str]]:
    rate = found.writes / max(found.load_s, 1e-9)
    into_log = found.records / max(found.load_s, 1e-9)
    early = ", ended by Ctrl-C" if found.interrupted else ""
    killed = f"; the {found.killed} was killed with -9 meanwhile" if found.killed else ""
    facts = [
        ("Shop", f"{found.database}, captured; cache: {found.cache}"),
        (
            "Load",
            f"{found.writes:,} transactions in {found.load_s:.0f} s{early} ({rate:,.0f}/s), "
            f"{_rate(into_log)} into the log{killed}",
        ),
        (
            "Latency",
            f"{_ms(found.latency_p50_s)} (p50), {_ms(found.latency_p99_s)} (p99) from the commit in the "
            f"database to the cache, {found.measured:,} orders",
        ),
        *_around_the_kill(found),
        *_freshness(found),
        ("Caught up", f"{found.settled_s:.1f} s after the last write, in every view"),
    ]
    for view in found.views:
        said = "equal to the database" if not view.different else f"{view.different:,} DIFFERENT"
        if view.example is not None:
            said += f", as {view.example}"
        facts.append((f"View {view.name}", f"{view.to}: {view.rows:,} rows, {said}"))
    return facts


def _freshness(found: ShopFound) -> list[tuple[str, str]]:
    return [(f"Fresh {view}", _fresh(each)) for view, each in found.freshness.items()]


def _fresh(each: ViewFreshness) -> str:
    said = f"{_ms(each.median_s)} behind the log (median), {_ms(each.most_s)} at most"
    return (
        said if each.after_kill_s is None else f"{said}; {_ms(each.after_kill_s)} around the kill"
    )


def _around_the_kill(found: ShopFound) -> list[tuple[str, str]]:
    if found.back_s is None:
        return []
    said = f"back in the cache {found.back_s:.1f} s after it; {found.held_up:,} orders were held up"
    return [("The kill", said)]


def _verdict(summary: Summary) -> str:
    if summary.verified:
        record = "every acknowledged record came back, once, in order, with its bytes"
        views = "; every view equals its database" if summary.shop is not None else ""
        return f"Verified: {record}{views}."
    if not summary.log_agrees:
        return "FAILED: the replay differs from what was acknowledged; see Compared above."
    return "FAILED: a view differs from the database that it follows; see the views above."


def _rate(per_second: float) -> str:
    return f"{per_second:,.0f} records/s"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms"
