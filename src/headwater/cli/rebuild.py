"""`headwater rebuild`: a view from the first record on, beside the one that serves; and the way back."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import admin, bootstrap_option
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
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.pipelines.declarations import View
    from headwater.views.operate.versions import Versions

LINE_EVERY_S = 2.0


def add_to(app: typer.Typer) -> None:
    app.command("rebuild")(rebuild)


class InUse(HeadwaterError):
    """Somebody works with what is to be removed."""


def rebuild(
    view: str = typer.Argument(..., metavar="VIEW", help="Name of the view."),
    paths: list[Path] = paths_argument(),
    no_switch: bool = typer.Option(
        False, "--no-switch", help="Keep both up to date until --switch, Ctrl-C or SIGTERM."
    ),
    switch: bool = typer.Option(
        False, "--switch", help="Let readers see the newest other version now; build nothing."
    ),
    back: bool = typer.Option(
        False, "--back", help="Let readers see the version before the current one; build nothing."
    ),
    drop: bool = typer.Option(
        False, "--drop", help="Remove all versions that readers do not see; build nothing."
    ),
    version: int | None = typer.Option(
        None, "--version", min=1, help="The one version that --switch or --drop means."
    ),
    to: list[str] = to_option(),
    bootstrap: str = bootstrap_option(),
    master: str = master_option(),
    checkpoints: str = checkpoints_option(),
    conf: list[str] = conf_option(),
) -> int:
    """Rebuild a view from the first record, beside the one that serves.

    The new version is built by the query as its file has it now. Once it is as far as the old one, readers
    see it, in one step; headwater run, if it runs, goes on with the new one by itself. The old one
    is kept until --drop. Interrupted, it goes on where it was.

    Example: headwater rebuild order_search pipelines/
    """
    if sum((no_switch, switch, back, drop)) > 1:
        raise typer.BadParameter("give one of --no-switch, --switch, --back and --drop")
    given = understood(paths, to, bootstrap, checkpoints, master, conf)
    if switch or back or drop:
        from headwater.pipelines.handles import handle, the_view, views_of
        from headwater.views.operate.versions import versions_of

        found = the_view(view, views_of(given.paths, given.targets))
        versions = versions_of(handle(found))
        if drop:
            return _drop(found, versions, version, given.checkpoints)
        chosen = version and versions.named(version)
        return _switch(versions, chosen or (versions.before() if back else versions.newest_other()))
    return _build(view, given, switch=not no_switch)


def _build(view: str, given: Given, *, switch: bool) -> int:
    with admin(given.bootstrap):
        pass  # says at once that no broker answers, before Spark is started
    order = order_of(given)
    with _audience(view) as audience:
        code = ask_running(given, order, "rebuild", view, audience, switch=switch)
        if isinstance(code, int):
            return code
        from headwater.pipelines.rebuild import rebuild as build

        return build(order, view, audience, switch=switch, targets=given.targets)


def _switch(versions: Versions, number: int) -> int:
    before = versions.current
    lost = versions.view.version(number).switch() or ()
    behind = versions.position(number).behind(versions.position(before))
    print(f"Readers see version {number} of {versions.view.name} now; version {before} is kept")
    for each in lost:
        print(f"Not carried over: {each}")
    if behind:
        print(
            f"It is {behind:,} records behind version {before}: headwater run brings it up to date"
        )
    return 0


def _drop(view: View, versions: Versions, version: int | None, checkpoints: str) -> int:
    from dataclasses import replace

    from headwater.local_path import local_path
    from headwater.pipelines.lock import is_held

    root = local_path(checkpoints)
    chosen = versions.others if version is None else [versions.named(version)]
    for number in chosen:
        name = replace(view, version=number).checkpoint
        place = None if root is None else root / name
        if place is not None and is_held(place):
            raise InUse(
                f"somebody works on version {number} of {view.name}", hint="stop that rebuild first"
            )
        versions.view.version(number).drop()
        if place is not None and place.is_dir():
            shutil.rmtree(place)
        print(f"Version {number} of {view.name} is gone")
        if place is None:
            print(f"Its checkpoint is left, for you to remove: {checkpoints.rstrip('/')}/{name}")
    if not chosen:
        print(f"{view.name} has no other version than {versions.current}")
    return 0


# ---- who watches ---------------------------------------------------------------------------------


@contextmanager
def _audience(view: str) -> Iterator[Any]:
    """A bar on a terminal, a line every few seconds elsewhere."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, TextColumn("{task.fields[pace]}"), console=console) as progress:
        yield _Bar(progress, progress.add_task(view, total=None, pace=""))


class Pace:
    """Records per second and the time left, from what was done since the first look."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def told(self, done: int, total: int, now: float) -> str:
        if self._first is None:
            self._first = (now, done)
        began, before = self._first
        rate = (done - before) / (now - began) if now > began else 0.0
        if rate <= 0:
            return "waiting for the first batch"
        return f"{rate:,.0f} records/s, {(total - done) / rate:,.0f} s left"


class _Lines:
    def __init__(self) -> None:
        self._pace, self._told = Pace(), 0.0

    def progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        words = self._pace.told(done, total, now)
        if now - self._told >= LINE_EVERY_S:
            self._told = now
            self.say(f"{done:,} of {total:,} records, {words}")

    def say(self, sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)


class _Bar:
    def __init__(self, progress: Any, task: Any) -> None:
        self._progress, self._task, self._pace = progress, task, Pace()

    def progress(self, done: int, total: int) -> None:
        pace = self._pace.told(done, total, time.monotonic())
        self._progress.update(self._task, completed=done, total=total, pace=pace)

    def say(self, sentence: str) -> None:
        self._progress.console.print(sentence, highlight=False)
