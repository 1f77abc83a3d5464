"""`headwater rows`: the rows of a view, as they are or as they were."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from headwater.cli.admin import admin, bootstrap_option, json_option, print_json, print_table
from headwater.cli.pipeline_words import (
    Given,
    ask_running,
    checkpoints_option,
    conf_option,
    master_option,
    order_of,
    paths_argument,
    to_option,
    understood,
)
from headwater.cli.progress import Waiting
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.pipelines.past_rows import PastRows

SHOWN = 50
ROWS_MAX = 10_000
_CELL_CHARACTERS = 40


class NobodyRuns(HeadwaterError):
    """No application answers, and none is to be started."""


@dataclass(frozen=True)
class Shown:
    """`all`: whether the view has no other rows than these."""

    position: str
    rows: list[dict[str, object]]
    all: bool
    remarks: list[str] = field(default_factory=list)


def add_to(app: typer.Typer) -> None:
    app.command("rows")(rows)


def rows(
    view: str = typer.Argument(..., metavar="VIEW", help="Name of the view."),
    paths: list[Path] = paths_argument(),
    as_of: str | None = typer.Option(
        None,
        "--as-of",
        metavar="POSITION|TIME",
        help="As they were there: orders:0=17, or 2026-11-15T15:00 (UTC, if it says no zone). Partitions "
        "that a position does not name are as far as the view is.",
    ),
    key: str = typer.Option("", "--key", help="Only the row of this key; columns between colons."),
    limit: int = typer.Option(
        SHOWN, "--limit", min=1, max=ROWS_MAX, metavar="COUNT", help="Show so many at most."
    ),
    running: bool = typer.Option(
        False, "--running", help="Start no Spark where no application runs that could compute them."
    ),
    to: list[str] = to_option(),
    bootstrap: str = bootstrap_option(),
    master: str = master_option(),
    checkpoints: str = checkpoints_option(),
    conf: list[str] = conf_option(),
    as_json: bool = json_option(),
) -> None:
    """Show rows of a view: as they are, or as they were at a position or a time.

    Rows as they are come from the view's store. Rows as they were are computed from the log, as `headwater
    verify` does it: by the application that runs, or by a Spark of its own.

    Example: headwater rows order_search pipelines/ --as-of 2026-11-15T15:00 --key 17
    """
    given = understood(paths, to, bootstrap, checkpoints, master, conf)
    if as_of is None:
        shown = _now(given, view, key, limit)
    else:
        past = _past(given, view, as_of, key, limit, running)
        shown = Shown(str(past.position), past.rows, past.is_all, past.remarks)
    print_json(asdict(shown)) if as_json else _print(view, shown)


def _now(given: Given, name: str, key: str, limit: int) -> Shown:
    from headwater.pipelines.handles import the_view, views_of
    from headwater.pipelines.view_rows import rows_of

    stored = rows_of(the_view(name, views_of(given.paths, given.targets)))
    if key:
        at, row = stored.get(key)
        return Shown(str(at or ""), [] if row is None else [row.fields], True)
    at, page = stored.page(None, limit + 1)
    fields: list[dict[str, object]] = [each.fields for each in page[:limit]]
    return Shown(str(at or ""), fields, len(page) <= limit)


def _past(given: Given, view: str, as_of: str, key: str, limit: int, running: bool) -> PastRows:
    with admin(given.bootstrap):
        pass  # says at once that no broker answers, before Spark is started
    order, heard = order_of(given), _Heard(silent=running)
    words: dict[str, object] = {"as_of": as_of, "key": key, "limit": limit}
    with Waiting(f"computing {view} as it was"):
        found = ask_running(given, order, "rows", view, heard, or_start=not running, **words)
        if found is not None:
            return cast("PastRows", found)
        if running:
            why = f": {heard.last}" if heard.last else ""
            raise NobodyRuns(
                f"no running application can say how {view} was{why}",
                hint="start the project (headwater up), or try again",
            )
        from headwater.pipelines.past_rows import Asked, past_rows_view

        return past_rows_view(order, view, heard.say, Asked(as_of, key, limit), given.targets)


class _Heard:
    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self.last = ""
        """What was said last, where it is not shown."""

    def progress(self, done: int, total: int) -> None:
        """Nobody tells any."""

    def say(self, sentence: str) -> None:
        if self._silent:
            self.last = sentence
        else:
            print(sentence, file=sys.stderr, flush=True)


def _print(view: str, shown: Shown) -> None:
    print(f"{view} at {shown.position or 'no position yet'}")
    for remark in shown.remarks:
        print(remark)
    names = list(dict.fromkeys(name for row in shown.rows for name in row))
    if names:
        print_table(names, [[_short(row.get(name)) for name in names] for row in shown.rows])
    else:
        print("no rows")
    if not shown.all:
        print(f"… and more; --limit shows up to {ROWS_MAX:,}")


def _short(value: object) -> object:
    if isinstance(value, int):
        return value
    text = "" if value is None else str(value)
    return text if len(text) <= _CELL_CHARACTERS else text[: _CELL_CHARACTERS - 1] + "…"
