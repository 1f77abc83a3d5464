"""Records that readers have not passed yet; pure: who reads, how far and what time it is, is handed in.

Owned by `follower`. Bounded in records (`RECORDS_MAX`), in records of one trace (`OF_A_TRACE_MAX`: a bulk
request is one trace) and in time; what is left out is counted, never kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from headwater.edges.tracing.spans import Followed, Span, reader_span

RECORDS_MAX = 10_000
OF_A_TRACE_MAX = 50
NOBODY_NS = 30 * 10**9
"""How long a record waits for its first reader: one that has begun counts once it has committed."""
Place = tuple[str, int]
Positions = Mapping[str, Mapping[Place, int]]
"""Group → (topic, partition) → the next offset that it reads."""


@dataclass
class _Waiting:
    record: Followed
    since_ns: int
    told: set[str] = field(default_factory=set)
    """Groups whose span has been told."""


class Pending:
    """`patience_ns`: how long a reader may take before its span is told as failed."""

    def __init__(self, patience_ns: int) -> None:
        self._patience_ns = patience_ns
        self._places: dict[Place, deque[_Waiting]] = {}
        self._of_trace: dict[int, int] = {}
        self._count = 0
        self._looked_ns = 0
        self.left_out = 0
        """Records that were not followed, as there were too many."""

    def __len__(self) -> int:
        return self._count

    def add(self, record: Followed, now_ns: int) -> bool:
        """Whether it is followed."""
        trace = record.context.trace_id
        if self._count >= RECORDS_MAX or self._of_trace.get(trace, 0) >= OF_A_TRACE_MAX:
            self.left_out += 1
            return False
        self._count += 1
        self._of_trace[trace] = self._of_trace.get(trace, 0) + 1
        self._places.setdefault(record.place, deque()).append(_Waiting(record, now_ns))
        return True

    def look(self, positions: Positions, now_ns: int) -> list[Span]:
        """The spans that ended since the last look; a record that all readers have passed is let go."""
        spans: list[Span] = []
        for place, waiting in list(self._places.items()):
            readers = {group: at[place] for group, at in positions.items() if place in at}
            kept: deque[_Waiting] = deque()
            for each in waiting:
                spans += self._passed(each, readers, now_ns)
                missing = [group for group in readers if group not in each.told]
                if self._is_over(each, missing, bool(readers), now_ns):
                    spans += self._given_up(each.record, missing, now_ns)
                    self._forget(each.record.context.trace_id)
                else:
                    kept.append(each)
            if kept:
                self._places[place] = kept
            else:
                del self._places[place]
        self._looked_ns = now_ns
        return spans

    def _passed(self, each: _Waiting, readers: Mapping[str, int], now_ns: int) -> Iterator[Span]:
        record = each.record
        for group, offset in readers.items():
            if offset > record.offset and group not in each.told:
                each.told.add(group)
                # A look before the record was known says nothing about it.
                looked_ns = self._looked_ns if each.since_ns <= self._looked_ns else 0
                not_yet_ns = max(looked_ns, record.appended_ns)
                yield reader_span(record, group, now_ns, within_ns=max(0, now_ns - not_yet_ns))

    def _is_over(self, each: _Waiting, missing: list[str], is_read: bool, now_ns: int) -> bool:
        if is_read and not missing:
            return True
        patience_ns = self._patience_ns if is_read else min(self._patience_ns, NOBODY_NS)
        return now_ns - each.since_ns >= patience_ns

    def _given_up(self, record: Followed, missing: list[str], now_ns: int) -> Iterator[Span]:
        for group in missing:
            words = f"had not passed the record after {self._patience_ns / 1e9:g} s"
            yield reader_span(record, group, now_ns, failed=words)

    def _forget(self, trace: int) -> None:
        self._count -= 1
        self._of_trace[trace] -= 1
        if not self._of_trace[trace]:
            del self._of_trace[trace]
