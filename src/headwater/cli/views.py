"""`headwater views`: where every view of the pipeline files lives and how far it is."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headwater.cli.admin import (
    admin,
    bootstrap_option,
    json_option,
    print_json,
    print_table,
)
from headwater.cli.pipeline_words import paths_argument, to_option, understood
from headwater.cli.properties import client_settings

if TYPE_CHECKING:
    from headwater.views.operate.progress import Listed

WATCH_S = 1.0


def add_to(app: typer.Typer) -> None:
    app.command("views")(views)


def views(
    paths: list[Path] = paths_argument(),
    to: list[str] = to_option(),
    watch: bool = typer.Option(False, "--watch", help="Look again every second, until Ctrl-C."),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """Show every view: its target, version, position, lag and freshness.

    Lag is counted in records and in seconds: how long the oldest record that is not in the view has
    waited. FRESHNESS is how long the oldest change of the last batch had waited in the log when the view
    showed it. VERIFIED says when `headwater verify` last found the view to be right.

    Example: headwater views pipelines/ --watch
    """
    from headwater.client.cluster import Cluster
    from headwater.pipelines.handles import all_listed, views_of

    given = understood(paths, to, bootstrap)
    bootstrap = given.bootstrap
    with admin(bootstrap) as client:
        declared = views_of(given.paths, given.targets)
        cluster = Cluster(client_settings(bootstrap))
        try:
            while True:
                found = all_listed(declared, cluster, client)
                _show(found, as_json=as_json, again=watch)
                if not watch:
                    return
                time.sleep(WATCH_S)
        except KeyboardInterrupt:
            if not watch:  # of which it is the way to end
                raise
        finally:
            cluster.close()


def _show(listed: list[Listed], *, as_json: bool, again: bool) -> None:
    if as_json and again:
        print(json.dumps([each.as_json() for each in listed]), flush=True)
        return
    if as_json:
        print_json([each.as_json() for each in listed])
        return
    if again and sys.stdout.isatty():
        print("\x1b[2J\x1b[H", end="")
    heads = ["VIEW", "VERSION", "LAG", "SECONDS", "FRESHNESS", "VERIFIED", "TO"]
    print_table(heads, [_row(each) for each in listed])
    for each in listed:
        if each.position is not None:
            print(f"{each.view} is at {each.position}")
        elif each.trouble:
            print(f"{each.view}: {each.trouble}")
    sys.stdout.flush()


def _row(each: Listed) -> list[object]:
    if each.trouble is not None:
        return [each.view, "?", "?", "?", "?", "?", each.to]
    others = len(each.versions) - 1
    version = (
        "-" if each.version is None else f"{each.version}{f' (+{others})' if others > 0 else ''}"
    )
    lag = "not begun" if each.lag is None else f"{each.lag.records:,}"
    seconds = "-" if each.lag is None else f"{each.lag.seconds:.1f}"
    fresh = "-" if each.freshness_s is None else f"{each.freshness_s:.1f} s"
    return [each.view, version, lag, seconds, fresh, _when(each), each.to]


def _when(each: Listed) -> str:
    if each.verified is None:
        return "-" if each.version is None else "never"
    return f"{datetime.fromtimestamp(each.verified.at_ms / 1000, UTC):%Y-%m-%d %H:%M}"
