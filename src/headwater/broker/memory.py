"""The one budget for memory that strangers can make the broker hold (`queued.max.request.bytes`).

Connections and handlers take from it and give back; the broker owns it. Five kinds of use are counted:

    frames      requests that are still coming in, as large as they have announced to be
    logins      the same, of clients that have not logged in
    requests    decoded requests, as large as they are then, until they are answered
    payloads    records that are decompressed to be checked
    answers     what has been written to a socket and not been taken by its client, or is being read for it

Nothing waits inside: who finds no room stops reading (or does not begin to answer) and is called when
there is some, first come, first served (but for lists), in five queues that do not hold each other up:

    login   frames of those who have not logged in: they have a sixteenth of the limit together
    small   frames of up to 1 MiB: while the whole is within the limit
    large   larger frames: the same, and they have no more than half of it together
    answer  Fetch and ShareFetch: while answers have less than half of the limit
    list    lists of groups, producers and the like, offsets, metadata and configs where these are many: the
            same, and one at a time; first those whose lists took least time lately

While no more than a quarter is used, one is let through whatever its size, so that nothing waits for
ever: what is held stays within the limit, or a quarter of it and one largest request. Requests of up
to 64 KiB (heartbeats, metadata, logins, most fetches) are never held up if they come whole. While somebody
waits, connections that hold memory and do not move (or let it wait behind a Fetch that may wait for days) are
dropped (`tick`). Beside this each connection takes a little; `security.admission` bounds how many there are.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from headwater.broker.turns import Had, in_turns

LARGE_BYTES = 1024 * 1024
SMALL_BYTES = 64 * 1024
"""What is taken even when the broker has too much to do: metadata, heartbeats, fetches."""
STALL_SECONDS = 3.0
"""Without a byte for so long, while others wait for memory, a connection that holds some is dropped."""
HOLD_SECONDS = 30.0
"""The same, however many bytes trickle; of who has not logged in, `STALL_SECONDS` as well."""
HALF_S = 600.0
"""Longer than a round of lists takes."""
LISTED_MAX = 10_000
LOGIN, SMALL, LARGE, ANSWER, LIST = "login", "small", "large", "answer", "list"


class Holder(Protocol):
    """A connection, as the budget sees it."""

    client_host: str

    def room(self) -> None:
        """There may be room now: try again."""

    def drop_if_stalled(self, now: float) -> None:
        """Others wait: go, if memory is held and nothing moves."""


class MemoryBudget:
    """Counts what is held, and knows who waits. `limit`: bytes, or -1 for no bound."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.spare = bytearray()
        """What the next bytes go to, of a connection that has no buffer: it is that one's then."""
        self.used: Counter[str] = Counter()
        """Kind of use → bytes."""
        self._large = 0
        """Of the frames, those in the queue of that name."""
        self._waiting: dict[str, OrderedDict[Holder, None]] = {
            queue: OrderedDict() for queue in (LOGIN, SMALL, LARGE, ANSWER, LIST)
        }
        self._listed: dict[Holder | str, Had] = {}
        """How long lists took, of a connection and of an address."""
        self._list_began = 0.0
        self._is_oldest_next = False
        self._lister: Holder | None = None
        """For whom a list is being made; it is counted when it is written to the socket."""
        self._turn: Holder | None = None
        """Who is being asked whether there is room for it now."""

    @property
    def held(self) -> int:
        return sum(self.used.values())

    @property
    def is_exhausted(self) -> bool:
        return 0 <= self.limit < self.held

    @property
    def is_waited_for(self) -> bool:
        return any(self._waiting.values())

    def take(self, kind: str, size: int) -> None:
        """Count what is there already, or must be."""
        self.used[kind] += size

    def release(self, kind: str, size: int) -> None:
        if size:
            self.used[kind] -= size
            self.let_in()

    def next_buffer(self, size: int) -> bytearray:
        if not self.spare:
            self.spare = bytearray(size)
        return self.spare

    # ---- frames --------------------------------------------------------------------------------

    def reserve_frame(self, holder: Holder, size: int, *, stranger: bool = False) -> bool:
        """Room for a frame of so many bytes; if there is none, `holder` waits for it.

        All of it or nothing: frames that each hold a part would wait for each other for ever.
        `stranger`: it has not logged in.
        """
        queue = LOGIN if stranger else LARGE if size > LARGE_BYTES else SMALL
        if not self._fits(queue, size) or self._is_behind(holder, queue):
            self._waiting[queue][holder] = None
            return False
        self._waiting[queue].pop(holder, None)
        self.used["logins" if stranger else "frames"] += size
        if queue is LARGE:
            self._large += size
        return True

    def release_frame(self, size: int, *, stranger: bool = False) -> None:
        if size > LARGE_BYTES and not stranger:
            self._large -= size
        self.release("logins" if stranger else "frames", size)

    def _fits(self, queue: str, size: int) -> bool:
        if self.limit < 0:
            return True
        if queue is LOGIN:
            return not self.used["logins"] or self.used["logins"] + size <= self.limit // 16
        held = self.held
        if held <= self.limit // 4 and (queue is SMALL or not self._large):
            return True
        if queue is LARGE:
            return self._large + size <= self.limit // 2 and held + size <= self.limit
        if self._waiting[LARGE] and not self._large:
            return False  # a large one waits for the others to become few
        return held + size <= self.limit

    def may_read(self, holder: Holder) -> bool:
        """Whether one whose requests are being worked on may send more; if not, it waits."""
        if self.is_exhausted or self._is_behind(holder, SMALL):
            self._waiting[SMALL][holder] = None
            return False
        self._waiting[SMALL].pop(holder, None)
        return True

    # ---- answers -------------------------------------------------------------------------------

    def answer_bytes(self) -> int:
        """How large an answer may be made now: a share of what is left, so that many get theirs."""
        if self.limit < 0:
            return 2**31 - 1
        left = self.limit // 2 - self.used["answers"]
        return max(SMALL_BYTES, left // 2) if left > 0 else 0

    def may_answer(self, holder: Holder) -> bool:
        """Whether to begin an answer that may be large; if not, `holder` waits for it."""
        if not self.answer_bytes() or self._is_behind(holder, ANSWER):
            self._waiting[ANSWER][holder] = None
            return False
        self._waiting[ANSWER].pop(holder, None)
        return True

    def may_list(self, holder: Holder) -> bool:
        """Whether to begin an answer that lists what clients have made; if not, `holder` waits for it."""
        taken = self._lister is not None and self._lister is not holder
        if taken or not self.answer_bytes() or self._is_behind(holder, LIST):
            self._waiting[LIST][holder] = None
            return False
        self._waiting[LIST].pop(holder, None)
        self._lister, self._list_began = holder, monotonic()
        return True

    def listed(self, holder: Holder) -> None:
        """Its list is written, and counted, or will never be."""
        if self._lister is holder:
            now = monotonic()
            for each in (holder, holder.client_host):
                self._listed.setdefault(each, Had(HALF_S)).add(now - self._list_began, now)
            self._forget_lists(now)
            self._lister = None
            self.let_in()

    # ---- those who wait ------------------------------------------------------------------------

    def _is_behind(self, holder: Holder, queue: str) -> bool:
        """Whether others came first."""
        waiting = self._waiting[queue]
        return holder is not self._turn and bool(waiting) and next(iter(waiting)) is not holder

    def let_in(self) -> None:
        """Call those for whom there is room, each queue up to the first for whom there is none."""
        if self._turn is not None or not self.is_waited_for:
            return
        try:
            for waiting in self._waiting.values():
                while waiting:
                    if waiting is self._waiting[LIST] and self._lister is None:
                        self._prefer_who_had_least()
                    self._turn, _ = waiting.popitem(last=False)
                    self._turn.room()
                    if self._turn in waiting:
                        waiting.move_to_end(self._turn, last=False)
                        break
        finally:
            self._turn = None

    def _had(self, holder: Holder, now: float) -> float:
        had = (self._listed.get(each) for each in (holder, holder.client_host))
        return sum(each.until(now) for each in had if each is not None)

    def _forget_lists(self, now: float) -> None:
        """Of addresses that are gone there may be many."""
        if len(self._listed) > LISTED_MAX:
            self._listed = {who: had for who, had in self._listed.items() if had.until(now) > 1}

    def _prefer_who_had_least(self) -> None:
        """Every second time: those who want large lists all the time keep nobody waiting for all of them."""
        self._is_oldest_next = not self._is_oldest_next
        if not self._is_oldest_next:
            waiting, now = self._waiting[LIST], monotonic()
            least = min(waiting, key=lambda each: self._had(each, now))
            waiting.move_to_end(least, last=False)

    def forget(self, holder: Holder) -> None:
        """It is gone."""
        for waiting in self._waiting.values():
            waiting.pop(holder, None)
        self.listed(holder)
        self._listed.pop(holder, None)

    async def tick(
        self, now: float, holders: tuple[Holder, ...], monotonic: Callable[[], float]
    ) -> None:
        """Once a second: whoever stalls keeps nobody else out. There may be thousands."""
        if self.is_waited_for:
            async for holder in in_turns(holders, monotonic):
                holder.drop_if_stalled(now)
            self.let_in()
