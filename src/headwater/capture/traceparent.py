"""A `traceparent` on some of the records of a capture, so that each of these can be followed to the views.

Called by `runner` for captures with `traced = RATIO`; without it nothing here runs. The cost is per chosen
record: how many are passed over between two of them is drawn, not decided record by record.

    traceparent  00-<trace id>-<span id>-01     W3C Trace Context: a new trace, sampled
    tracestate   headwater=capture:<name>:<microseconds since 1970>

`tracestate` says that the span is that capture's, when the change was read from the database, and that
nobody has told it yet; `edges.tracing` tells it, from the commit in the database to the append.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection

from headwater.capture.change import BY_KEY, Headers, Record

_SYSTEM = random.SystemRandom()


class Traced:
    """One capture's choice, from batch to batch."""

    def __init__(
        self,
        name: str,
        ratio: float,
        never: Collection[str] = (),
        chance: random.Random | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        """`never`: topics that hold no changes of rows."""
        assert 0 < ratio <= 1
        self._name, self._ratio, self._never = name, ratio, frozenset(never)
        self._clock_ns = clock_ns
        self._chance = chance or random.Random(_SYSTEM.getrandbits(128))
        self._next = self._step() - 1
        """How many records are passed over before the next one."""

    def mark(self, records: list[Record]) -> None:
        """Put headers on the chosen ones, in place."""
        place = self._next
        while place < len(records):
            records[place] = self._marked(records[place])
            place += self._step()
        self._next = place - len(records)

    def _step(self) -> int:
        """Drawn from the geometric distribution: each record is chosen with the same chance."""
        if self._ratio >= 1:
            return 1
        return 1 + int(math.log(1.0 - self._chance.random()) / math.log(1.0 - self._ratio))

    def _marked(self, record: Record) -> Record:
        if record[2] is None or record[0] in self._never:
            return record  # a tombstone only repeats what the change before it said
        headers: Headers = [
            ("traceparent", self._traceparent()),
            ("tracestate", self._tracestate()),
        ]
        if len(record) == 3:
            return (*record, headers, BY_KEY)
        topic, key, value, own, partition = record
        if partition != BY_KEY or any(name == "traceparent" for name, _ in own or ()):
            return record  # for all keys at once; or an application's event with a trace of its own
        return (topic, key, value, [*(own or ()), *headers], partition)

    def _traceparent(self) -> bytes:
        # As OpenTelemetry samples by ratio: the last 64 bits of a chosen id lie below ratio * 2**64.
        low = self._chance.randrange(max(1, int(self._ratio * 2**64)))
        trace_id = self._chance.getrandbits(64) << 64 | low
        return b"00-%032x-%016x-01" % (trace_id or 1, self._chance.getrandbits(64) or 1)

    def _tracestate(self) -> bytes:
        return f"headwater=capture:{self._name}:{self._clock_ns() // 1000}".encode()
