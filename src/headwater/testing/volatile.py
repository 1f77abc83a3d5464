"""What a disk holds, and what it only seems to hold: the two kinds of node below a `FaultyDisk`.

A node keeps what readers see now, what is durable, and the changes in between in the order in which
they were made. `sync` makes the changes durable. `after_power_cut` says what the machine finds when
it comes back, as harshly as the contract in `headwater.log.files` allows and no harsher:

- each unsynced change of bytes is there, absent, or torn, whatever happened to the others;
- where a file would have grown, lost bytes read as zeros, as garbage, as older bytes of the file, or
  the file is simply shorter;
- each unsynced change of names is there or absent as a whole (a rename is one change);
- what was synced is there, byte for byte, if the names on the way to it are.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Literal, NamedTuple

Outcome = Literal["lost", "torn", "corrupt"]
"""What becomes of unsynced changes where a test wants one thing rather than any."""


class Change(NamedTuple):
    """Bytes written at a position; without data: the file cut or stretched to that size."""

    position: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        missing = self.position - len(content)
        if missing > 0:
            content.extend(bytes(missing))
        if self.data is None:
            del content[self.position :]
        else:
            content[self.position : self.position + len(self.data)] = self.data


class Data:
    """The bytes of one file."""

    def __init__(self) -> None:
        self.now = bytearray()
        self.durable = bytearray()
        self.pending: list[Change] = []

    def change(self, change: Change) -> None:
        change.apply(self.now)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def forget(self) -> None:
        """A sync failed: readers still see the bytes, but no later sync will write them.

        So do Linux and others: the pages are marked clean once the error has been reported.
        """
        self.pending.clear()

    def after_power_cut(
        self, random: Random, sector_bytes: int, outcome: Outcome | None = None
    ) -> Data:
        found = Data()
        found.durable = bytearray(self.durable)
        fates = _fates(random, len(self.pending), outcome)
        for change, fate in zip(self.pending, fates, strict=True):
            if fate == "whole" or (fate == "torn" and change.data is None):
                change.apply(found.durable)
            elif fate == "torn":
                for piece in _pieces(change, random, sector_bytes):
                    if random.random() < 0.5:
                        piece.apply(found.durable)
                    else:
                        _lose(piece, found.durable, random, outcome)
            elif change.data is not None:
                _lose(change, found.durable, random, outcome)
        found.now = bytearray(found.durable)
        return found


def _fates(random: Random, count: int, outcome: Outcome | None) -> list[str]:
    """What becomes of `count` unsynced changes. The plain outcomes are as likely as the wild one."""
    if outcome is not None:
        return ["torn" if outcome == "torn" else "lost"] * count
    kind = random.choice(("none", "all", "first", "each"))
    if kind == "none":
        return ["lost"] * count
    if kind == "all":
        return ["whole"] * count
    if kind == "first":
        kept = random.randint(0, count)
        return (["whole"] * kept + ["torn"] + ["lost"] * count)[:count]
    return random.choices(("whole", "lost", "torn"), k=count)


def _pieces(change: Change, random: Random, sector_bytes: int) -> list[Change]:
    """The write in up to four parts, cut at sector boundaries."""
    assert change.data is not None
    start, end = change.position, change.position + len(change.data)
    cuts = {start, end}
    for _ in range(random.randint(1, 3)):
        cut = random.randint(start, end)
        cuts.add(min(max(cut - cut % sector_bytes, start), end))
    places = sorted(cuts)
    return [
        Change(here, change.data[here - start : there - start]) for here, there in pairwise(places)
    ]


def _lose(change: Change, content: bytearray, random: Random, outcome: Outcome | None) -> None:
    """The bytes did not get there, but the file may have grown all the same."""
    assert change.data is not None
    start = max(change.position, len(content))
    size = change.position + len(change.data) - start
    if size <= 0:
        return
    kinds = {"lost": ("absent",), "corrupt": ("zeros", "garbage", "stale")}
    kind = random.choice(
        kinds.get(outcome or "", ("absent", "absent", "zeros", "garbage", "stale"))
    )
    if kind == "zeros":
        Change(start, bytes(size)).apply(content)
    elif kind == "garbage":
        Change(start, random.randbytes(size)).apply(content)
    elif kind == "stale" and content:
        Change(start, bytes(content[:size])).apply(content)


class NameChange(NamedTuple):
    """Names that change together: to a node, or to nothing."""

    names: tuple[tuple[str, Node | None], ...]

    def apply(self, entries: dict[str, Node]) -> None:
        for name, node in self.names:
            if node is None:
                entries.pop(name, None)
                continue
            # A rename moves: where an earlier rename of the same node was lost, take it from there.
            for other in [key for key, value in entries.items() if value is node]:
                del entries[other]
            entries[name] = node


class Directory:
    """The names in one directory."""

    def __init__(self) -> None:
        self.now: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: list[NameChange] = []

    def change(self, *names: tuple[str, Node | None]) -> None:
        change = NameChange(names)
        change.apply(self.now)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def after_power_cut(
        self, random: Random, sector_bytes: int, outcome: Outcome | None = None
    ) -> Directory:
        entries = dict(self.durable)
        fates = _fates(random, len(self.pending), outcome)
        if outcome == "corrupt":  # the names are there, and what they name is not
            fates = ["whole"] * len(fates)
        for change, fate in zip(self.pending, fates, strict=True):
            if fate == "whole" or (fate == "torn" and random.random() < 0.5):
                change.apply(entries)
        found = Directory()
        for name, node in sorted(entries.items()):
            found.durable[name] = node.after_power_cut(random, sector_bytes, outcome)
        found.now = dict(found.durable)
        return found


Node = Data | Directory
