"""What a target must do, so that a view in it is exact: the contract for every derived system.

A view's micro-batch reaches a target in two steps, and what is visible changes only in the second.

    executors   stage(batch, part, rows)     each task puts its part aside, in parallel
    driver      commit(applied, parts)       one transaction: the rows, and how far the view now is

Everything before the commit may fail and come again: a batch that the target has applied already
changes nothing, and a writer that has been replaced is told so (`Fenced`). `headwater.testing.targets`
has the tests that every target must pass; docs/targets.md shows how to write one.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from headwater.client.position import Position
from headwater.errors import HeadwaterError
from headwater.secrets import shown

if TYPE_CHECKING:
    import pyarrow as pa

DELETED = "_deleted"
"""Column of the staged rows of a keyed view: this key has no row any more."""
VALID_FROM = "_valid_from"
"""Column of the staged rows of a history, after `_deleted`: since when the row is so."""
VALIDITY = ("valid_from", "valid_to", "current")
"""Columns of the visible rows of a history, after those of the view."""


class Kind(enum.Enum):
    """How rows arrive at their place."""

    APPEND = "append"
    """Rows are added; there is no key."""
    UPSERT = "upsert"
    """One row per key: the last one stands (a slowly changing dimension of type 1)."""
    HISTORY = "history"
    """All versions of a key's row with `valid_from`, `valid_to` and `current` (type 2)."""


@dataclass(frozen=True)
class Shape:
    """What of a view a target needs to know."""

    view: str
    schema: pa.Schema
    """Of the view's rows. Staged rows have `_deleted` after these where there is a key, and in a
    history also `_valid_from`; visible rows of a history have `valid_from`, `valid_to`, `current`."""
    key: tuple[str, ...] = ()
    kind: Kind = Kind.UPSERT
    version: int = 1
    """Several versions of a view may lie side by side; one of them is what readers see."""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Applied:
    """How far a version of a view is: kept by the target in the same transaction as the rows."""

    batch: int
    epoch: int
    """Of the writer. A target refuses a writer whose epoch is older than the one it knows."""
    position: Position


@dataclass(frozen=True)
class Refusal:
    """A row that the target does not take, for the view's dead-letter topic."""

    row: str
    """As JSON."""
    reason: str
    part: int = -1
    number: int = -1
    """Of the row among those that `stage` got for this part, from 0, where the target knows: then the
    letter says which record it was."""


@dataclass(frozen=True)
class Part:
    """What a task has put aside; small, as the driver gets one of each task."""

    number: int
    place: str
    """Where the target finds it again: a table, a file, a key. Another one for each attempt: two
    drivers may work on a batch for a moment, and theirs must not mix."""
    rows: int
    """Without those refused."""
    refused: tuple[Refusal, ...] = ()


class Fenced(HeadwaterError):
    """Another writer has taken this view over; this one must stop."""


class Unavailable(HeadwaterError):
    """The target does not answer now; the same call may succeed later."""


class Misfit(HeadwaterError):
    """What the target has, or lets us do, does not fit the view; it does not pass, a person must decide."""


class RowsRefused(HeadwaterError):
    """Rows that a target took when they were staged, and refuses now that they are to count."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__(f"{len(refusals)} rows were refused: {refusals[0].reason}")
        self.refusals = tuple(refusals)


class Target(ABC):
    """One view in one derived system. Cheap to make and to pickle: connections open when needed."""

    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.UPSERT})

    def __init__(self, address: str, shape: Shape) -> None:
        self.address = address
        """All of the view's `to`, as in `sqlite:shop.db` and `postgresql://…`, with secrets in it: not for
        messages."""
        self.shape = shape

    @property
    def rest(self) -> str:
        """The address after its first colon."""
        return self.address.partition(":")[2]

    @property
    def name(self) -> str:
        """Under which readers see the view: the option `table`, or else the view's name."""
        return self.shape.options.get("table", self.shape.view)

    @property
    def staging_folder(self) -> Path | None:
        """Where tasks leave parts for the driver, as files; None where parts are in the store itself. On a
        cluster it is tried before the view starts whether executors see it."""
        staged = getattr(self, "_staged", None)
        return getattr(staged, "folder", None)  # only `StagedFiles` has one

    def visible_schema(self) -> pa.Schema:
        """What `reading` gives: the view's columns, of a history with those of its times."""
        import pyarrow as pa

        if self.shape.kind is not Kind.HISTORY:
            return self.shape.schema
        time = pa.timestamp("us", "UTC")
        fields = zip(VALIDITY, (time, time, pa.bool_()), strict=True)
        return pa.schema([*self.shape.schema, *(pa.field(*each) for each in fields)])

    # ---- the driver, when a query starts ----------------------------------------------------------

    @abstractmethod
    def create(self) -> None:
        """Make the place of this version where it is missing; `Misfit` where it has another shape.

        The first version that there is becomes what readers see at once.
        """

    def can_widen(self) -> bool:
        """Whether a version can get columns while it has rows."""
        return False

    def widen(self) -> None:
        """Before `create`, if `can_widen`: give this version the columns that the view has besides, which are
        null in rows that are there. May come again. Other differences are left to `create`."""
        raise NotImplementedError

    @abstractmethod
    def claim(self) -> int:
        """Become the writer: returns an epoch that fences all earlier writers of this version."""

    @abstractmethod
    def applied(self) -> Applied | None:
        """How far this version is; None before its first batch."""

    def judges_rows(self) -> bool:
        """Whether the store has rules that only it can judge; asked after `create`.

        Then `stage` gets every change of a key, in order, and the last one that is taken stands.
        """
        return False

    # ---- tasks ------------------------------------------------------------------------------------

    def refused(self, rows: pa.RecordBatch) -> Iterable[tuple[int, str]]:
        """Rows that can never be in this target, by themselves: number and reason.

        Asked of every change of a key before the last one is chosen: a refused row counts as if it had
        never been, wherever a batch ends. Of a deleted row only the key is given.
        """
        return ()

    @abstractmethod
    def stage(self, batch: int, part: int, rows: Iterator[pa.RecordBatch]) -> Part:
        """Put rows aside, invisibly; there is at least one. Only the parts given to `commit` count.

        In a keyed view a key comes at most once in a batch (of a history, and where the target judges
        rows: its changes in order, in one part). A row that the target cannot take is a `Refusal` and
        does not harm the others.
        """

    # ---- the driver, at the end of a batch --------------------------------------------------------

    @abstractmethod
    def commit(self, applied: Applied, parts: Sequence[Part]) -> None:
        """Make the parts visible together with the position, or nothing of it.

        A batch that is not newer than `applied().batch` changes nothing. Removes what was staged.
        `Fenced` if another writer has claimed the version. `Unavailable` if a part is not there any
        more: the batch comes again. `RowsRefused` if rows break a rule that only shows now: nothing
        has changed but these rows are no longer staged, and the caller, having kept them elsewhere,
        commits the same parts again.
        """

    def correct(self, applied: Applied, parts: Sequence[Part]) -> bool:
        """Make the parts, staged as batch -1, visible without moving the position.

        Only if this version is still exactly at `applied`; otherwise nothing changes, and False.
        """
        raise HeadwaterError(
            f"{shown(self.address)} cannot be repaired in place",
            hint=f"rebuild it: headwater rebuild {self.shape.view}",
        )

    # ---- readers: verify, views over tables, tests ------------------------------------------------

    @abstractmethod
    def reading(
        self, keys: pa.Table | None = None
    ) -> AbstractContextManager[tuple[Applied | None, Iterator[pa.RecordBatch]]]:
        """The rows of this version and its position, of one moment; with `keys`, only theirs."""

    # ---- versions: rebuild. These and `applied` need no `create` before, nor the schema. ----------

    @abstractmethod
    def versions(self) -> dict[int, Applied | None]:
        """The versions that there are."""

    @abstractmethod
    def current(self) -> int | None:
        """The version that readers see under the view's name."""

    @abstractmethod
    def switch(self) -> Sequence[str] | None:
        """Let readers see this version from now on, atomically; the one before is kept. `Misfit` where
        there is no such version. Returns in words what people had put on the one before and must put on
        this one themselves."""

    @abstractmethod
    def drop(self) -> None:
        """Remove this version, which must not be the one that readers see, nor needed by something that
        people have made beside it (`Misfit`)."""
