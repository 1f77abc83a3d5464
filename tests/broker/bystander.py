"""A client that has nothing to do with the trouble: it writes and reads on, and notices any harm."""

from __future__ import annotations

import threading
import time
from types import TracebackType

from tests.broker.serving import create
from tests.compat.asking import fetch, produce
from tests.compat.batches import batch, read_batches
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire, connected


class Bystander:
    """Produces a record and reads it back, again and again, on a connection of its own."""

    def __init__(self, bootstrap: str, topic: str = "bystander", commits: bool = False) -> None:
        """`commits`: it also commits how far it has come, and looks whether that was kept."""
        self.rounds = 0
        self.slowest = 0.0
        self._topic = topic
        self._commits = commits
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="bystander", daemon=True)

    def __enter__(self) -> Bystander:
        with connected(self._bootstrap) as wire:
            create(wire, self._topic)
        self._thread.start()
        self.goes_on()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        if error is None and self._error is not None:
            raise self._error

    def goes_on(self, rounds: int = 3) -> None:
        """Wait until it has done some more, all of it right."""
        wanted = self.rounds + rounds
        until(lambda: self._error or self.rounds >= wanted, "the bystander to go on")
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with connected(self._bootstrap) as wire:
                while not self._stop.wait(0.003):
                    begin = time.monotonic()
                    self._round(wire, self.rounds)
                    self.slowest = max(self.slowest, time.monotonic() - begin)
                    self.rounds += 1
        except BaseException as error:
            self._error = error

    def _round(self, wire: Wire, number: int) -> None:
        value = b"%d" % number
        stored = produce(wire, self._topic, batch([(None, value)]))
        assert stored.error_code is ErrorCode.none, stored
        assert stored.base_offset == number
        (read,) = read_batches(fetch(wire, self._topic, number).records)
        assert read.pairs == [(None, value)]
        if self._commits:
            self._commit(wire, number)

    def _commit(self, wire: Wire, offset: int) -> None:
        place = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1}
        answer = wire.ask(
            "offset_commit",
            9,
            group_id=f"of-{self._topic}",
            generation_id_or_member_epoch=-1,
            topics=[{"name": self._topic, "partitions": [place]}],
        )
        assert answer.topics[0].partitions[0].error_code is ErrorCode.none, answer
        wanted = [{"name": self._topic, "partition_indexes": [0]}]
        groups = [{"group_id": f"of-{self._topic}", "member_epoch": -1, "topics": wanted}]
        found = wire.ask("offset_fetch", 9, groups=groups).groups[0].topics[0].partitions[0]
        assert found.committed_offset == offset, found
