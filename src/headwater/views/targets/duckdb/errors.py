"""What an error of DuckDB means for a view. Called by the target and by whoever reads views in its files."""

from __future__ import annotations

import duckdb

from headwater.errors import HeadwaterError
from headwater.views.targets.contract import Misfit, Unavailable
from headwater.views.targets.libraries import text_passes

_PASSING = (
    duckdb.TransactionException, duckdb.OutOfMemoryException, duckdb.InterruptException,
    duckdb.ConnectionException,
)  # fmt: skip
_LOCKED = "set lock on file"


def passes(error: duckdb.Error) -> bool:
    """Whether the same may succeed later: the file is open elsewhere, a conflict, the system's trouble."""
    said = str(error)
    return isinstance(error, _PASSING) or _LOCKED in said or text_passes(said)


def trouble(error: duckdb.Error, where: str, view: str) -> HeadwaterError:
    """`Unavailable` if it passes, otherwise `Misfit`."""
    said = " ".join(str(error).split())
    if passes(error):
        return Unavailable(f"{where} cannot be used now: {said}")
    return Misfit(
        f"{where} does not take the view {view!r}: {said}",
        hint="put back what was changed by hand (a table, a column, the file's rights), or rebuild "
        f"the view with headwater rebuild {view}",
    )
