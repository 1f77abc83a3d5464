"""The chain of manifests: each follows from the one before it, and one driver at a time adds to it. Pure.

Called by `upkeep`. Two drivers may be at work for a while, each of them stopped for any time between any two
calls of the storage: one that was thought dead, one started twice. What keeps the state whole then:

    a manifest is added only to the one that it was computed from, which must be the newest, before and after;
    what is removed is older than the batch at hand, and neither it nor the one before it needs that.

A manifest needs, of what is older than itself, nothing that the one before it does not need. So whoever
removes by this rule removes nothing that a later manifest needs, however late he comes, and even where the
storage puts one file in the place of another (a rename on a folder or an object store is not exclusive).
"""

from __future__ import annotations

from typing import Protocol

from headwater.views.tables.shared.manifest import Manifest, batch_of, leftovers
from headwater.views.targets.contract import Fenced

MANIFESTS = "manifests"
DATA = "data"
READS_MOST = 5
"""While others add two manifests between a look and a read, each time."""


class SmallFiles(Protocol):
    """What is asked of a storage: see `folder`."""

    @property
    def address(self) -> str: ...

    def names(self, name: str) -> list[str]: ...

    def read(self, name: str) -> str | None: ...

    def write_new(self, name: str, text: str) -> None: ...

    def remove(self, name: str) -> None: ...


class Chain:
    """Of one view's state."""

    def __init__(self, folder: SmallFiles) -> None:
        self._folder = folder

    def newest(self) -> Manifest | None:
        for _ in range(READS_MOST):
            batch = self._last()
            if batch < 0:
                return None
            if (found := self._read(batch)) is not None:
                return found
        raise self._fenced("are gone as soon as they are listed")

    def add(self, now: Manifest, before: Manifest) -> None:
        """Fenced where another driver has gone on from `before`: then nothing of its is touched."""
        self._must_end_with(before)
        self._folder.write_new(f"{MANIFESTS}/{now.batch}", now.to_json())
        self._must_end_with(now)

    def clean(self, before: Manifest, now: Manifest, attempt: str) -> None:
        """Remove what only earlier batches needed, and what lay between the steps of `attempt`. The manifest
        before stays: its files are still being read where a driver that was replaced is not yet gone."""
        folder = self._folder
        for batch in self._batches():
            if batch < before.batch:
                folder.remove(f"{MANIFESTS}/{batch}")
        for name in leftovers(folder.names(DATA), (before, now), now.batch):
            folder.remove(f"{DATA}/{name}")
        if attempt not in now.attempts:
            folder.remove(f"{DATA}/{attempt}")
        # Of the batch before, too: its driver may have ended before it came here.
        last = {each for each in before.attempts if batch_of(each) == before.batch}
        needed = before.needed | now.needed
        for each in sorted(last | (now.attempts & {attempt})):
            for name in folder.names(f"{DATA}/{each}"):
                if f"{each}/{name}" not in needed:
                    folder.remove(f"{DATA}/{each}/{name}")

    def _must_end_with(self, known: Manifest) -> None:
        last = self._last()
        if last != known.batch or (last >= 0 and self._read(last) != known):
            raise self._fenced(f"do not end with batch {known.batch} as this driver knows it")

    def _read(self, batch: int) -> Manifest | None:
        text = self._folder.read(f"{MANIFESTS}/{batch}")
        return None if text is None else Manifest.from_json(text)

    def _last(self) -> int:
        return max(self._batches(), default=-1)

    def _batches(self) -> list[int]:
        return [int(name) for name in self._folder.names(MANIFESTS) if name.isdecimal()]

    def _fenced(self, what: str) -> Fenced:
        return Fenced(
            f"the manifests in {self._folder.address}/{MANIFESTS} {what}: another driver follows this view",
            hint="let one of them run; this one goes on from what is written when the other has ended",
        )
