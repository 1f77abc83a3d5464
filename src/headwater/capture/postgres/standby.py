"""A standby that the first snapshot is read from, so that its primary is spared (`snapshot_from`).

Called by `source`. A snapshot cannot be exported from one server to another; but on a standby a transaction
is seen when its commit record has been replayed, so that what one snapshot there shows is all that was
committed before some place of the WAL, and nothing else:

    WAL ── … commit … L1 ─────── L2 ── … ──▶     L1, L2: how far replay had come before and after
                         └ view ┘

Replay counts a record only when it is done with it, so the view may have one that begins at L2. If no
transaction of the captured tables was committed from L1 up to and with L2, the view is exactly what the
stream has brought until then; otherwise there is another view. So the primary holds up nobody, replay is not
paused, and the role needs no more rights than at the primary. What was captured meanwhile is streamed before
the rows are read: they must not be older than what readers have.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headwater.capture.change import Batch, Position
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import CaptureError, Interrupted, SourceRefused
from headwater.capture.postgres import slot
from headwater.capture.postgres.assembly import OWN_PREFIX
from headwater.capture.postgres.connection import (
    Connection,
    connect,
    lsn_number,
    lsn_text,
    plain,
)
from headwater.capture.source import Finding
from headwater.secrets import expand

CATCH_UP_S = 10.0
"""So long replay may stand still while it is waited for."""
TRIES = 50
LOOKS = 100
"""So often one try looks for a moment in which nothing was replayed: where commits come all the time, such
a moment is short."""
_PAUSE_S, _PAUSE_MAX_S = 0.02, 0.5
_MARK = "standby"
_REPLAYED = "SELECT pg_last_wal_replay_lsn()::text"
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# One message: between the two places lies no way through the network.
LOOK = (
    "ROLLBACK", "BEGIN", _REPLAYED, "COMMIT", _BEGIN,
    "SELECT pg_export_snapshot(), pg_last_wal_replay_lsn()::text",
)  # fmt: skip
_STATE = """
SELECT pg_is_in_recovery(), current_setting('hot_standby_feedback') = 'on',
       extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8,
       current_setting('recovery_min_apply_delay'), current_database()::text
"""


@dataclass(frozen=True)
class Moment:
    """One moment of the standby; whoever takes up the snapshot does so while the connection is open."""

    connection: Connection
    snapshot: str
    lsn: int
    """What was committed before it, it shows."""
    last: int
    """What begins behind it, it does not."""

    @property
    def until(self) -> int:
        """Where the record behind the last that it may show begins at the earliest."""
        return self.last + slot.PAGE_HEADER_BYTES + 1


def standby_of(config: CaptureConfig) -> Standby | None:
    url = config.option("snapshot_from", "")
    return Standby(expand(url)) if url else None


class Standby:
    """The server of `snapshot_from`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._view: Moment | None = None

    @property
    def view(self) -> Moment:
        assert self._view is not None, "levelled() comes first"
        return self._view

    def close(self) -> None:
        if self._view is not None:
            self._view.connection.close()
            self._view = None

    def levelled(
        self,
        position: Position,
        primary: Connection,
        stream: Callable[[Position, int], Iterator[Batch]],
        changed: Callable[[], int],
    ) -> Iterator[Batch]:
        """Changes up to a view, which there is afterwards. `changed`: where the last was committed."""
        self._require(primary)
        _write(primary)
        yield from self._await(position["lsn"], position)
        self._check_timeline(position["timeline"])
        changed_lsn = 0
        for _ in range(TRIES):
            view = self._view = self._look()
            _write(primary)  # an idle server would not tell that nothing lies in between
            for batch in stream(position, view.until):
                position = batch.position
                yield batch
            changed_lsn = max(changed_lsn, changed())
            if changed_lsn < view.lsn:
                return
            self.close()  # replay may have to wait for it
            yield from self._await(view.until, position)
        raise Interrupted(
            f"whenever the standby was looked at, {TRIES} times, it just replayed a commit"
        )

    def finding(self, primary: Connection) -> Finding:
        """What a snapshot from it needs."""
        try:
            self._require(primary)
            connection = connect(self.url)
            try:
                _, feedback, behind_s, *_ = _state(connection)
            finally:
                connection.close()
        except (CaptureError, Interrupted) as error:
            return Finding("snapshot_from", False, str(error), error.hint)
        said = f"the standby replays, {behind_s or 0:.0f} s since the last commit"
        if not feedback:
            said += (
                "; hot_standby_feedback is off, so a vacuum at the primary may cut a chunk short, which "
                "is then read again"
            )
        return Finding("snapshot_from", True, said)

    def _require(self, primary: Connection) -> None:
        """Raise unless it is a copy of this primary that follows it."""
        connection = connect(self.url)
        try:
            replays, _, _, delay, named = _state(connection)
            if slot.system(connection) != slot.system(primary) or not replays:
                raise SourceRefused(
                    "the server in `snapshot_from` is no standby of the one in `from`",
                    hint="name one that follows it by physical replication, or leave it out",
                )
            if delay != "0":
                raise SourceRefused(
                    f"the standby in `snapshot_from` stays behind on purpose "
                    f"(recovery_min_apply_delay = {delay}): it rests only where a commit is next",
                    hint="name one that follows at once, or leave it out",
                )
            captured = _state(primary)[-1]  # as the server says: a pooler's name may be another
            if named != captured:
                raise SourceRefused(
                    f"`snapshot_from` names the database {named}, `from` the database {captured}",
                    hint="name the same one in both",
                )
        finally:
            connection.close()

    def _await(self, lsn: int, position: Position) -> Iterator[Batch]:
        """Until it has replayed what lies before. Batches without records: who waits can be stopped."""
        connection = connect(self.url)
        standstill, pause_s = Standstill(), _PAUSE_S
        try:
            while (replayed := _replayed(connection)) < lsn:
                if standstill.seconds(replayed, time.monotonic()) > CATCH_UP_S:
                    raise Interrupted(
                        f"the standby has not yet what the log has: it is {lsn - replayed} bytes behind, "
                        f"and for {CATCH_UP_S:g} s its replay has stood still at {lsn_text(replayed)}"
                    )
                yield Batch(position)
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        finally:
            connection.close()

    def _check_timeline(self, timeline: int) -> None:
        """Once it has what its primary has: it may just have followed it to another one."""
        own = slot.timeline(self.url, {"lsn": 0})
        if own != timeline:
            raise SourceRefused(
                f"the standby is on timeline {own}, its primary on {timeline}: it follows another server",
                hint="`snapshot_from` must follow the server in `from`",
            )

    def _look(self) -> Moment:
        with contextlib.ExitStack() as unless_seen:
            connection = connect(self.url)
            unless_seen.callback(connection.close)
            for _ in range(LOOKS):
                before, snapshot, after = _moment(connection)
                if before == after:
                    break
            if not _state(connection)[0]:
                raise Interrupted("the standby was promoted just now")
            unless_seen.pop_all()
        return Moment(connection, snapshot, before, after)


class Standstill:
    """Since when replay has not gone on: one that is behind and goes on is waited for however long."""

    def __init__(self) -> None:
        self._lsn, self._since_s = -1, 0.0

    def seconds(self, replayed: int, now_s: float) -> float:
        if replayed != self._lsn:
            self._lsn, self._since_s = replayed, now_s
        return now_s - self._since_s


def _moment(connection: Connection) -> tuple[int, str, int]:
    """A snapshot, and how far replay had come before and after it was taken."""
    with plain():
        cursor = connection.execute("; ".join(LOOK).encode())
        rows = [cursor.fetchone() for _ in LOOK if cursor.nextset() and cursor.description]
    before, after = rows[0], rows[-1]
    assert before is not None and after is not None, "a SELECT without a row"
    return lsn_number(str(before[0])), str(after[0]), lsn_number(str(after[1]))


def _state(connection: Connection) -> tuple[bool, bool, float | None, str, str]:
    """Whether it replays, whether it tells its primary what it reads, since when nothing came, by how much
    it is told to stay behind, and the database."""
    with plain():
        row = connection.execute(_STATE).fetchone()
    assert row is not None
    return row


def _replayed(connection: Connection) -> int:
    with plain():
        row = connection.execute(_REPLAYED).fetchone()
    return lsn_number(row[0]) if row is not None and row[0] is not None else 0


def _write(primary: Connection) -> None:
    """Something, so that the WAL goes on: a transaction, because only its end is flushed at once."""
    with plain():
        primary.execute("SELECT pg_logical_emit_message(true, %s, '')", [f"{OWN_PREFIX}.{_MARK}"])
