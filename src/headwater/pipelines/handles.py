"""Declared views without a query: for commands that only ask, wait or switch, and need no Spark.

`headwater views`, `wait` and parts of `rebuild` come here. A pipeline file may itself ask Spark for
something as soon as it is run (`@udf("long")`); only then is a session started.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from headwater.pipelines.declared import View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.loading import load_again
from headwater.pipelines.stores import kind_of
from headwater.views import waiting
from headwater.views.registry import is_target


def views_of(paths: Iterable[Path], targets: Mapping[str, str] | None = None) -> list[View]:
    """Every view that the files declare; `targets`: where some of them live instead."""
    given = list(paths)
    try:
        views = load_again(given)
    except PipelineError as error:
        if error.__cause__ is None:
            raise  # not what a file did when it was run
        from headwater.pipelines.session import session

        spark = session("local[1]", name="headwater", settings={"spark.log.level": "ERROR"})
        try:
            views = load_again(given)
        finally:
            spark.stop()
    return placed(views, targets or {})


def placed(views: Sequence[View], targets: Mapping[str, str]) -> list[View]:
    """The views, some of them with another `to` than their files say."""
    for name in targets:
        the_view(name, views)
    return [
        replace(view, to=targets[view.name]) if view.name in targets else view for view in views
    ]


def the_view(name: str, views: Sequence[View]) -> View:
    """The one of that name; what there is instead, where it is not there."""
    for view in views:
        if view.name == name:
            return view
    names = [view.name for view in views]
    near = get_close_matches(name, names, 1)
    raise PipelineError(
        f"no view named {name!r} is declared in these files",
        hint=f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}",
    )


def handle(view: View) -> waiting.View:
    """The view where it lives."""
    if not is_target(view.to):
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) goes to {view.to}, which keeps no position of its "
            "own and has no versions",
            hint="this is for views in a store; headwater views shows how far the others are",
        )
    return waiting.View(view.name, view.to, kind=kind_of(view), options=view.options)
