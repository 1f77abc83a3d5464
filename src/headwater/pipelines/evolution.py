"""A topic's schema has got or lost columns while a view runs: what becomes of the view.

Called by `query` when the source has stopped for it (`SchemaMoved`), before a row of the new schema has been
seen. The view's function is called by both schemas, with no rows, and what comes out is compared:

    a column is gone that the view has, or needs    refused; the query stops, and nothing is written
    the same columns                                goes on as it was
    more columns                                    the view gets them (`new_columns="add"`), or goes on

Only a view that keeps no state of Spark's gets columns, and only those of which it has read no value past:
what rows of before had there, the log alone can say, by a rebuild. `evolution.json` says first what the view
gets (`pinned_schemas`); its target and the state of its tables (`state_evolution`) add what they have not, at
this start of the query or, if it fails, at the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.client.errors import BrokerUnreachable
from headwater.errors import HeadwaterError
from headwater.pipelines import sink_schemas, state_evolution, stores
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import ADD, View, in_store
from headwater.pipelines.errors import PipelineError, brief
from headwater.pipelines.pinned_schemas import KeptPins, Pins
from headwater.pipelines.plan import plan_of
from headwater.pipelines.schema_trials import Moved, Trial, columns_of, listed, missing, tried_by
from headwater.pipelines.state_evolution import query_digest
from headwater.schemas.errors import RegistryError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AWAY = (BrokerUnreachable, RegistryError)  # the query is tried again


@dataclass(frozen=True)
class Evolution:
    """Of one built query."""

    view: View
    context: Context
    widen_tables: Callable[[], None] | None = None
    """Gives the state of a view over tables the columns that these have got."""

    @property
    def changes_state(self) -> bool:
        return self.widen_tables is not None and self._kept().evolving is not None

    def _kept(self) -> KeptPins:
        return KeptPins(self.context.checkpoint)

    def decide(self) -> str:
        return evolve(self.view, self.context)

    def carry_out(self, note: Callable[[], None]) -> None:
        """What `evolve` asked for, before the query starts. Raises Unavailable where the target is away.

        `note`: says of the checkpoint that it is the query's as it is now."""
        kept = self._kept()
        steps = [each for each in (self.context.widen, self.widen_tables) if each is not None]
        if kept.evolving is not None and steps:
            kept.widen()
            for each in steps:
                each()
            note()
        kept.finish()


def leave(view: View, context: Context) -> None:
    """Before a build: let a view that is no longer to get columns, and has not begun to, be as it was."""
    kept = KeptPins(context.checkpoint)
    if context.pinned is None and view.new_columns != ADD and kept.evolving is not None:
        kept.leave()


def check(view: View, context: Context, frame: DataFrame) -> None:
    """In a build: PipelineError where a view is being given columns, and its function has others now."""
    evolving = KeptPins(context.checkpoint).evolving if context.pinned is None else None
    if evolving is None:
        return
    if evolving.columns != columns_of(frame) or evolving.query not in ("", query_digest(frame)):
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) is being given columns that came upstream, and its "
            "function no longer gives those",
            hint=f"undo the change until it has run once; or: headwater rebuild {view.name}",
        )


def evolve(view: View, context: Context) -> str:
    """Decide, and note what is to be done at the next start; returns that in words.

    PipelineError where the view cannot go on."""
    from pyspark.errors import PySparkException

    kept = KeptPins(context.checkpoint)
    was = tried_by(view, context, kept.all)
    found = {name: each for name in kept.all if (each := _moved(was, name)) is not None}
    latest = {name: each.now.id for name, each in found.items()}
    unfit = [f"the schema {each.now.id}: {each.unfit}" for each in found.values() if each.unfit]
    moved = {n: each for n, each in found.items() if not each.unfit and each.has_others}
    by_latest = {n: Pins({**kept.of(n).ids, "value": latest[n]}) for n in moved}
    try:
        now = tried_by(view, context, {**kept.all, **by_latest})
    except AWAY:
        raise
    except (HeadwaterError, PySparkException) as error:
        raise _refused(view, moved.values(), f"its function fails: {brief(error)}") from error
    if lost := missing(now.paths, was.paths):
        raise _refused(view, moved.values(), f"the view has {listed(lost)}")
    new = missing(was.paths, now.paths)
    pins = {name: kept.of(name).moved_to(latest[name]) for name in moved}
    then = tried_by(view, context, {**kept.all, **pins}) if new else now
    hindrance = _hindrance(view, was, then, new, moved, kept) if new else ""
    if new and not hindrance:
        query = "" if then.tables is None else query_digest(then.frame)
        kept.begin(pins, then.columns, query)
        return f"gets {listed(new)}, of the schema {listed(str(latest[n]) for n in moved)}"
    kept.look_no_more(latest)
    if new:
        again = f"; headwater rebuild {view.name} makes a version that has them"
        return f"goes on without {listed(new)}: {hindrance}{again}"
    if unfit:
        return f"goes on as it was: {'; '.join(unfit)}"
    return "goes on: no columns came or went that it has"


def _moved(was: Trial, name: str) -> Moved | None:
    from headwater.spark.source.values.query_schemas import lookup

    described = was.context.described.get(name)
    if described is None or described.id is None:
        return None
    url = described.options["registry"]
    subject, known = f"{name.partition(' ')[2]}-value", lookup(url)
    version, pinned = known.version(subject), known.by_id(described.id)
    if version is None or pinned is None or version.id == described.id:
        return None
    return Moved(subject, pinned, known.whole(version.id, version.schema), url)


def _hindrance(
    view: View,
    was: Trial,
    now: Trial,
    new: Sequence[str],
    moved: Mapping[str, Moved],
    kept: KeptPins,
) -> str:
    """Why a view cannot get columns as it is, or is not to; empty where it can."""
    if view.new_columns != ADD:
        return "so it is set (new_columns)"
    if now.tables is None and now.context.tables:
        return "it takes the changes of a table one by one"
    if now.tables is None and plan_of(now.frame).state:
        return "it keeps state by its columns"
    for name, kind in was.columns.items():
        if now.columns[name] != kind:
            return f"its column {name} would be of {now.columns[name]}, and is of {kind}"
    if read := _read_past(view, was.context, new, moved, kept):
        return read
    try:
        return state_evolution.hindrance(view, was, now) or _hindrance_of_target(view, now)
    except PipelineError as error:
        return str(error.args[0])


def _read_past(
    view: View, context: Context, new: Sequence[str], moved: Mapping[str, Moved], kept: KeptPins
) -> str:
    """Whether records that had one of the columns were read without it."""
    from pyspark.errors import PySparkException

    for name, each in moved.items():
        pins = kept.of(name)
        for id in pins.passed(each.registry, each.subject):
            by_it = Pins({**pins.ids, "value": id})
            try:
                then = tried_by(view, context, {**kept.all, name: by_it}).columns
            except AWAY:
                raise
            except (HeadwaterError, PySparkException):
                return f"records of the schema {id} were read without what it has besides"
            if had := [column for column in new if column in then]:
                return f"records of the schema {id} were read without {listed(had)}"
    return ""


def _hindrance_of_target(view: View, now: Trial) -> str:
    if not in_store(view):
        topic = view.to.partition(":")[2]
        return sink_schemas.complaint(view, now.context, topic, now.frame.schema)
    shape = stores.shape_of(view, now.frame)
    if stores.store_of(view, shape, now.context.checkpoint).can_widen():
        return ""
    return f"{view.where} keeps the columns that it has"


def _refused(view: View, moved: Iterable[Moved], why: str) -> PipelineError:
    lost = "; ".join(
        f"{each.subject} has lost {listed(each.lost)} with the schema {each.now.id}"
        for each in moved
        if each.lost
    )
    return PipelineError(
        f"the view {view.name!r} ({view.place}): {lost or 'the schemas of its topics have changed'}, and "
        f"{why}; nothing of it was written",
        hint=f"bring the column back; or change the view, then: headwater rebuild {view.name}",
    )
