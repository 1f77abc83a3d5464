"""The stored queries at every time, and the matching of a batch of documents against them. In workers.

A document meets the queries that were in force at its time: added or replaced by then, not yet removed. The
documents of a batch are indexed once, in memory; from the index's own list of words follows which queries
can find anything in it, and only these are run.
"""

from __future__ import annotations

import hashlib
import pickle
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from headwater.processing.joins.versions import NEVER, Change, Version, place, seen, settle
from headwater.processing.percolator.fields import NUMBER, Fields, Parsed

DOCUMENTS_AT_ONCE = 20_000
KNOWN_MOST = 8

Stored = dict[str, list[Version]]
"""Query id to what it was, and from when on."""


class Match(NamedTuple):
    document: int
    query: str


class Try(NamedTuple):
    """A query's text, and the time for which it is in force: from the first, before the second."""

    id: str
    parsed: Parsed
    since: int
    until: int


@dataclass(frozen=True)
class Standing:
    """The stored queries as they are known at one moment; never changed, only replaced."""

    fields: Fields
    stored: Stored = field(default_factory=dict)

    def after(self, changes: Iterable[Change]) -> Standing:
        """With these changes as well."""
        known: Stored = dict(self.stored)
        for each in changes:
            versions = list(known.get(each.key, ()))
            place(versions, each.version(0))
            known[each.key] = versions
        return Standing(self.fields, known)

    def without(self, time: int) -> Standing:
        """Without what no document of after `time` can meet."""
        old = [key for key in self._changed if self._ended(key) <= time]
        if not old:
            return self
        known = dict(self.stored)
        for key in old:
            versions = list(known[key])
            settle(versions, time, forget=0)
            known[key] = versions
            if not versions:
                del known[key]
        return Standing(self.fields, known)

    @cached_property
    def _changed(self) -> list[str]:
        return [key for key, vs in self.stored.items() if len(vs) > 1 or vs[0].row is None]

    def _ended(self, key: str) -> int:
        versions = self.stored[key]
        return versions[1].visible if len(versions) > 1 else versions[0].visible

    # ---- matching ---------------------------------------------------------------------------------

    def matches(
        self, documents: Sequence[str], times: Sequence[int], *, prune: bool = True
    ) -> Iterator[Match]:
        """Every document with every query that finds it; documents are JSON objects of the fields."""
        for first in range(0, len(documents), DOCUMENTS_AT_ONCE):
            some = slice(first, first + DOCUMENTS_AT_ONCE)
            searcher = self.fields.index(documents[some])
            tried = self._candidates(searcher) if prune else self._tries
            yield from _found(searcher, tried, times[some], first)

    def _candidates(self, searcher: Any) -> list[Try]:
        by_word, always = self._by_word
        there = {
            number: {word for word, _ in searcher.terms_with_prefix(name, "")}
            for number, name in self.fields.texts.items()
        }
        found = dict.fromkeys(always)
        for number, wanted in by_word.items():
            for word in wanted.keys() & there[number]:
                for at in wanted[word]:
                    if at not in found and _all_there(self._tries[at].parsed, there):
                        found[at] = None
        return [self._tries[at] for at in found]

    @cached_property
    def _tries(self) -> list[Try]:
        found = []
        for key, versions in self.stored.items():
            ends = [each.visible for each in versions[1:]]
            for version, until in zip(versions, [*ends, None], strict=True):
                if version.row is not None:
                    end = NEVER if until is None else until
                    found.append(Try(key, self.fields.parse(version.row), version.visible, end))
        return found

    @cached_property
    def _by_word(self) -> tuple[dict[int, dict[str, list[int]]], list[int]]:
        """Field number to word to the places of queries that need it; and the queries that need none."""
        words: dict[int, dict[str, list[int]]] = {}
        always = []
        for at, each in enumerate(self._tries):
            if each.parsed.needs is None:
                always.append(at)
                continue
            for number, word in each.parsed.needs[0]:
                words.setdefault(number, {}).setdefault(word, []).append(at)
        return words, always

    def meets(self, query: str, time: int) -> str | None:
        """The text of a query at a time."""
        return seen(self.stored.get(query, []), time)

    # ---- between two batches ------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        plain = {key: [tuple(v) for v in versions] for key, versions in self.stored.items()}
        return pickle.dumps((1, plain), protocol=5)


def _all_there(parsed: Parsed, there: Mapping[int, Set[str]]) -> bool:
    """Whether of everything else that the query needs, something occurs too."""
    rest = (parsed.needs or ())[1:]
    return all(any(word in there[number] for number, word in clause) for clause in rest)


def _found(
    searcher: Any, tried: Iterable[Try], times: Sequence[int], first: int
) -> Iterator[Match]:
    newest, oldest = max(times), min(times)
    count = len(times)
    for each in tried:
        if each.since > newest or each.until <= oldest:
            continue
        hits = searcher.search(each.parsed.query, count, count=False, order_by_field=NUMBER).hits
        for number, _ in hits:
            if each.since <= times[number] < each.until:
                yield Match(first + number, each.id)


_known: OrderedDict[tuple[Fields, bytes], Standing] = OrderedDict()
"""Of this worker: so that a batch without new queries parses none. By what they are, as bytes."""


def digest(kept: bytes) -> bytes:
    return hashlib.blake2b(kept, digest_size=16).digest()


def recalled(fields: Fields, mark: bytes, kept: bytes) -> Standing:
    """The queries that were kept, ready to be used, from memory where they are there."""
    found = _known.get((fields, mark))
    if found is None:
        form, plain = pickle.loads(kept)
        if form != 1:
            raise ValueError(f"state of form {form}, which another version has written")
        stored = {key: [Version(*v) for v in versions] for key, versions in plain.items()}
        found = Standing(fields, stored)
    remember(mark, found)
    return found


def remember(mark: bytes, standing: Standing) -> None:
    _known[standing.fields, mark] = standing
    _known.move_to_end((standing.fields, mark))
    while len(_known) > KNOWN_MOST:
        _known.popitem(last=False)
