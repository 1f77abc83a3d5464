"""How far a sender came, kept in TOPIC.sessions: so that a gap is named even if nobody heard of it.

A sender that dies takes its buffer with it, and receivers may not know that its last packets existed. The
next start tells them (heartbeats carry it), and they name what they lack. Called by `bridge`, in a thread;
one record after each batch:

    key     the bridge
    value   {"session": …, "last": 17, "before": [[session, last], …]}   the last few starts, oldest first

Invariant: the record of a batch must be on disk before the position of that batch is committed. What was not
committed is sent again in the next session; what was is therefore known to have been sent.
"""

from __future__ import annotations

import json

from confluent_kafka import KafkaError

from headwater.browse import making
from headwater.browse.errors import Unreachable, translated
from headwater.browse.log import TIMEOUT_S, Log
from headwater.browse.pages import page
from headwater.edges.multicast.packets import Ranges

SESSIONS = ".sessions"
EARLIER_MAX = 8


class Reached:
    """Of one bridge. Synchronous."""

    def __init__(self, log: Log, topic: str, bridge: str) -> None:
        self._log, self._topic, self._key = log, topic + SESSIONS, bridge.encode()
        self._producer = log.new_producer(linger_ms=0)
        self._written = 0
        self._before: Ranges = ()

    def read(self) -> Ranges:
        """Sessions before this start, and how far each came. Makes the topic where there is none."""
        making.ensure(self._log, self._topic, 1, cleanup_policy="compact")
        keep = self._key.__eq__
        found = page(
            self._log, self._topic, back=True, limit=1, keep=lambda record: keep(record.key)
        ).records
        if found:
            said = json.loads(found[0].value or b"{}")
            pairs = [*said["before"], [said["session"], said["last"]]][-EARLIER_MAX:]
            self._before = tuple((int(session, 16), int(last)) for session, last in pairs)
        return self._before

    def write(self, session: int, last: int) -> None:
        """On disk when this returns."""
        if last == self._written:
            return
        failed: list[KafkaError] = []
        before = [[f"{each:016x}", reached] for each, reached in self._before]
        value = json.dumps({"session": f"{session:016x}", "last": last, "before": before})
        self._producer.produce(
            self._topic,
            value,
            self._key,
            on_delivery=lambda error, _: failed.append(error) if error is not None else None,
        )
        if self._producer.flush(TIMEOUT_S + 1):
            raise Unreachable(f"{self._topic}: no answer from {self._log.bootstrap}")
        if failed:
            raise translated(failed[0], f"writing to {self._topic}", self._log.bootstrap)
        self._written = last
