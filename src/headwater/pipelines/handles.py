"""Declared views without a query: for commands that only ask, wait or switch, and need no Spark.

`headwater views`, `wait` and parts of `rebuild` come here. A pipeline file may itself ask Spark for
something as soon as it is run (`@udf("long")`); only then is a session started.

Also here: a declared view and how far it is; `headwater views` and the console ask.

A view in a store is asked there. Of one that goes to a topic or to files, the position is the one that
its query has told the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.client.cluster import LATEST, READ_COMMITTED, Cluster
from headwater.client.position import Position
from headwater.client.verdict import read
from headwater.pipelines import progress
from headwater.pipelines.declarations import View, refuse_shared_places
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.loader import load_again
from headwater.pipelines.stores import kind_of
from headwater.views.operate import progress as listing
from headwater.views.operate import wait
from headwater.views.operate.progress import Listed
from headwater.views.targets.registry import is_store

if TYPE_CHECKING:
    from headwater.client.librdkafka import AdminClient


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
    found = [
        replace(view, to=targets[view.name], effect=None) if view.name in targets else view
        for view in views
    ]
    refuse_shared_places(found)
    return found


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


def handle(view: View) -> wait.View:
    """The view where it lives."""
    if not is_store(view.to):
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) goes to {view.where}, which keeps no position of its "
            "own and has no versions",
            hint="this is for views in a store; headwater views shows how far the others are",
        )
    return wait.View(view.name, view.to, kind=kind_of(view), options=view.options)


LATELY = 200
"""Records of the progress topic."""


def all_listed(views: Iterable[View], cluster: Cluster, client: AdminClient) -> list[Listed]:
    """Views, as they are now."""
    fresh = freshness(cluster)
    return [
        replace(listed(view, cluster, client), freshness_s=fresh.get(view.name)) for view in views
    ]


def listed(view: View, cluster: Cluster, client: AdminClient) -> Listed:
    """One view, without what its query says of itself."""
    if is_store(view.to):
        return listing.in_target(handle(view), cluster)
    return listing.by_group(view.name, view.where, _committed(client, view.group), cluster)


def freshness(cluster: Cluster) -> dict[str, float]:
    """What queries have said of their freshness lately, by name."""
    return {
        said["query"]: said["freshness_seconds"]
        for said in progress_records(cluster, LATELY)
        if said.get("freshness_seconds") is not None
    }


def progress_records(cluster: Cluster, most: int) -> Iterator[dict[str, Any]]:
    """The last records of the progress topic."""
    place = (progress.TOPIC, 0)
    if progress.TOPIC not in cluster.metadata([progress.TOPIC]).topics:
        return
    end = cluster.list_offsets({place: LATEST}, READ_COMMITTED)[place]
    for record in read(cluster, place, max(0, end - most), end):
        yield json.loads(record.value or b"{}")


def _committed(client: AdminClient, group: str) -> Position | None:
    from headwater.client import groups

    offsets: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in groups.committed_by(client, [group])[group].items():
        offsets.setdefault(topic, {})[partition] = offset
    return Position(offsets) if offsets else None
