"""Targets whose rows are gone once they are written: into a function, or into what Spark writes itself.

They meet the contract as far as it is about writing. Who asks for rows or versions hears that there are none.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NoReturn

from headwater.errors import HeadwaterError
from headwater.secrets import shown
from headwater.views.targets.contract import Target

if TYPE_CHECKING:
    import pyarrow as pa


class WriteOnlyTarget(Target):
    """No rows that could be read here, and one version."""

    def reading(self, keys: pa.Table | None = None) -> AbstractContextManager[NoReturn]:
        raise self._lacks("no rows to read here")

    def current(self) -> int | None:
        return 1

    def switch(self) -> NoReturn:
        raise self._lacks("no versions")

    def drop(self) -> NoReturn:
        raise self._lacks("no versions")

    def _lacks(self, what: str) -> HeadwaterError:
        return HeadwaterError(
            f"the view {self.shape.view!r} goes to {shown(self.address)}, which has {what}",
            hint="wait, verify, repair and rebuild are for views in a store (docs/targets.md)",
        )
