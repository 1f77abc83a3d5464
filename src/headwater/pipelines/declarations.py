"""What pipeline files have declared: views by name, each with the place where it stands.

Written by the decorator `view`, read by the runner. Importing a file only fills this list: no view's
function is called, and Spark is not needed, before the runner builds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from headwater.pipelines.errors import PipelineError
from headwater.secrets import shown
from headwater.views.targets.places import Place, place_of
from headwater.views.targets.registry import is_store

Mode = Literal["append", "update", "complete"]
MODES = ("append", "update", "complete")
MICRO_BATCH, REAL_TIME = "micro-batch", "real-time"
SPEEDS = (MICRO_BATCH, REAL_TIME)
KINDS = ("append", "upsert", "history")
DEAD_LETTER, FAIL = "dead-letter", "fail"
ON_REFUSED = (DEAD_LETTER, FAIL)
ADD, IGNORE = "add", "ignore"
NEW_COLUMNS = (ADD, IGNORE)


@dataclass(frozen=True)
class View:
    """A query and where its result lives."""

    name: str
    function: Callable[[], Any]
    to: str
    """SCHEME:REST, see `targets`."""
    key: tuple[str, ...] = ()
    mode: Mode | None = None
    """None: update where rows of a result change (aggregates), append elsewhere."""
    every: str | None = None
    """Time between two micro-batches (`5 seconds`); None: as quickly as they come."""
    speed: str = MICRO_BATCH
    options: dict[str, str] = field(default_factory=dict)
    place: str = ""
    """FILE:LINE of the function, for people."""
    kind: str = ""
    """How a target keeps rows, one of KINDS; empty: upsert where there is a key, append elsewhere."""
    on_refused: str = DEAD_LETTER
    """What becomes of a row that the target refuses."""
    new_columns: str = ADD
    """What becomes of columns that a topic's schema gets while the view runs."""
    effect: Callable[..., Any] | None = None
    """A Python function as target; `to` then only names it."""
    version: int = 1
    """Of the view in its target: a rebuild makes another beside it."""
    batch_records_max: int | None = None
    """Of one batch, since a larger one took too long; None: as the application says."""

    @property
    def where(self) -> str:
        """Its target for people and for records: without a password."""
        return shown(self.to)

    @property
    def topic(self) -> str | None:
        """The topic that it writes to, if it does."""
        scheme, _, rest = self.to.partition(":")
        return rest if scheme == "topic" else None

    @property
    def checkpoint(self) -> str:
        """The name of the query: of its checkpoint, and in Spark."""
        return self.name if self.version == 1 else f"{self.name}@{self.version}"

    @property
    def group(self) -> str:
        """The consumer group under which lag tools see this query."""
        return f"headwater-{self.checkpoint}"

    @property
    def dead_letters(self) -> str:
        """The topic for what does not fit a schema, or is refused; named as a share group's would be."""
        return f"dlq.headwater-{self.name}"


def in_store(view: View) -> bool:
    """Whether the view lives in a store of `headwater.views`, or is a function."""
    return view.effect is not None or is_store(view.to)


class Declarations:
    """Views in the order in which they were declared; a name may be used once."""

    def __init__(self) -> None:
        self._views: dict[str, View] = {}

    def add(self, view: View) -> None:
        other = self._views.get(view.name)
        if other is not None and other.place != view.place and _is_in_a_file(other):
            raise PipelineError(
                f"two views are named {view.name!r}: {other.place} and {view.place}",
                hint="give one of them another name; it names the checkpoint and the consumer group",
            )
        rest = [each for each in self._views.values() if each.name != view.name]
        refuse_shared_places([*filter(_is_in_a_file, rest), view])
        self._views[view.name] = view

    def views(self) -> list[View]:
        return list(self._views.values())

    def clear(self) -> None:
        self._views.clear()


def refuse_shared_places(views: Sequence[View]) -> None:
    """PipelineError where two views would write to one place."""
    known: list[tuple[Place, View]] = []
    for view in views:
        place = place_of("function:" if view.effect else view.to, view.name, view.options)
        if place is None:
            continue
        for other, of in known:
            if place.clashes(other):
                raise PipelineError(
                    f"the views {of.name!r} ({of.place}) and {view.name!r} ({view.place}) would share "
                    f"a place: {_shown(of)} and {_shown(view)}",
                    hint="a view has a place of its own; name another with to= or "
                    "options={'table': …}",
                )
        known.append((place, view))


def _shown(view: View) -> str:
    return f"{view.where}, table {view.options['table']}" if "table" in view.options else view.where


def _is_in_a_file(view: View) -> bool:
    """Not in a cell of a notebook, which may be run once more."""
    return Path(view.place.rpartition(":")[0]).exists()


DECLARED = Declarations()
"""Of this process. The decorator has nowhere else to write to."""
