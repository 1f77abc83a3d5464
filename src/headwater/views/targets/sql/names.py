"""Names in SQL: our own, which no name of a view's can be, and a view's, which a store must be able to keep.

Called by the SQL targets when they compose statements (`OwnNames`) and when they make a table
(`must_be_usable`). Whatever a statement of ours calls a column, an alias, a subquery or a temporary table
comes from `OwnNames`: the columns and tables of views are named by people, as they like.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from headwater.views.targets.contract import DELETED, VALID_FROM, VALIDITY, Kind, Misfit, Shape

_BEGIN = "hw_"


class OwnNames:
    """Names that begin as none of the taken ones does, whatever its case: `own("n")` may be `hw_n`."""

    def __init__(self, taken: Iterable[str]) -> None:
        folded = [name.casefold() for name in taken]
        begin = _BEGIN
        while any(name.startswith(begin) for name in folded):
            begin = f"_{begin}"
        self._begin = begin

    @classmethod
    def beside(cls, shape: Shape) -> OwnNames:
        """For statements over the rows of a view, in whichever of its tables."""
        table = shape.options.get("table", shape.view)
        return cls([*shape.schema.names, table, DELETED, VALID_FROM, *VALIDITY])

    def __call__(self, name: str) -> str:
        """Small letters only, so that it needs no quotes."""
        return self._begin + name


def must_be_usable(
    shape: Shape,
    store: str,
    *,
    folded: bool = False,
    bytes_max: int | None = None,
    reserved: Collection[str] = (),
) -> None:
    """Misfit where the view's columns cannot be those of one table, beside those that headwater adds.

    `folded`: the store takes `Total` and `total` for one. `reserved`: columns that it has in every table.
    """
    names = shape.schema.names
    for name in names:
        if not name or "\0" in name:
            raise _unusable(shape, name, f"{store} has no such name")
        if name in reserved:
            raise _unusable(shape, name, f"{store} has one of its own in every table")
        if bytes_max is not None and len(name.encode()) > bytes_max:
            raise _unusable(shape, name, f"{store} cuts names at {bytes_max} bytes")
    twin = _twin([*names, *_added(shape)], str.casefold if folded else str)
    if twin is not None:
        one, other = twin
        why = f"{other} is there as well" if other in names else f"{other} is added by headwater"
        if one != other:
            why += f", and {store} takes them for one"
        raise _unusable(shape, one, why)


def _added(shape: Shape) -> Sequence[str]:
    if shape.kind is Kind.APPEND:
        return ()
    return (DELETED, VALID_FROM, *VALIDITY) if shape.kind is Kind.HISTORY else (DELETED,)


def _twin(names: Sequence[str], look: Callable[[str], str]) -> tuple[str, str] | None:
    seen: dict[str, str] = {}
    for name in names:
        looks = look(name)
        if looks in seen:
            return seen[looks], name
        seen[looks] = name
    return None


def _unusable(shape: Shape, name: str, why: str) -> Misfit:
    return Misfit(
        f"the view {shape.view!r} cannot have a column {name!r}: {why}",
        hint="give the column another name in the view's query",
    )
