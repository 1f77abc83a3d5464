"""What an owner knows of its partition, and how it decides: pure, no I/O, no clock, no chance.

`Owner` hands in commands and gets a `Draft`: the records to append, and the answers to give once they are
on disk. The ledger is then ahead of the log by the drafts on their way; `undo` takes the last one back.

Invariants:
- A command id must be decided once for its aggregate, and for one command. Ids are remembered for the last
  `window` decisions and for KEEP_MS; a command that was sent before the oldest of these needs a look into
  the log first (`doubtful`).
- An answer, a refusal too, must be given only when its draft and all drafts before are on disk: a refusal
  follows from a state, and the state from events that may yet turn out not to have happened.
- `n` of an aggregate's events must rise by one: a gap means that the state was built from less than all.
  It is an error unless an excision explains it, and then concerns that aggregate only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple

from headwater.events import acknowledgement, answers
from headwater.events.aggregate import Aggregate, State
from headwater.events.answers import Accepted, Answer, Refused
from headwater.events.codec import Codec
from headwater.events.commands import Asked
from headwater.events.errors import DecideFailed, EventsError, IdReused
from headwater.events.excision_audit import gap
from headwater.events.verdict import Verdict, judge

WINDOW = 100_000
BATCH_BYTES = 512 << 10
"""Brokers take batches of a megabyte by default."""
KEEP_MS = 30_000
"""What was decided so lately is remembered beyond the window."""
SKEW_MS = 10_000
"""Clocks of senders and owners may differ by this much. Less than KEEP_MS: a command that was sent just
now is then never doubtful."""


Decision = tuple[str, str]
"""What is decided once: an aggregate's id and a command's. Other aggregates may have one of the same id."""


class Held(NamedTuple, Generic[State]):
    """An aggregate as it is: its state, and how many events it has had."""

    state: State
    version: int


class Known(NamedTuple):
    """A decision, when it was made, and of which command (`Asked.fingerprint`; empty: not known)."""

    answer: Answer
    at_ms: int
    fingerprint: str = ""


@dataclass(slots=True)
class Draft:
    """Decisions that are not on disk yet."""

    asked: list[Asked] = field(default_factory=list)
    outcomes: list[Answer | Exception] = field(default_factory=list)
    """One for each of `asked`."""
    events: list[tuple[bytes, bytes]] = field(default_factory=list)
    """Key and value of each record."""
    lines: list[tuple[bytes, bytes]] = field(default_factory=list)
    bytes: int = 0
    undo: list[tuple[str, Held[Any] | None]] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    last_ms_before: int | None = None


class Ledger:
    """The states of all aggregates of one partition, and what was decided lately."""

    def __init__(
        self, aggregate: Aggregate[Any], partition: int, codec: Codec, window: int = WINDOW
    ) -> None:
        self.aggregate = aggregate
        self.partition = partition
        self.codec = codec
        self.held: dict[str, Held[Any]] = {}
        self.next_offset = 0
        """Of the event topic, behind everything decided, drafts included."""
        self.last_ms = 0
        self.remembered_from_ms = 0
        """What was decided since then is remembered; 0: everything that ever was."""
        self.next_answer = 0
        """Of the answer topic: what is before it is known."""
        self.cleared: set[Decision] = set()
        """Commands from long ago that were looked for in the log, are not in it, and wait to be decided."""
        self.broken: dict[str, str] = {}
        """Aggregates of which only a part is left, and why `apply` cannot take that: nothing is decided for
        them, and no snapshot is written that would hide them."""
        self._holed: set[str] = set()
        self._decided: dict[Decision, Known] = {}
        self.window = window
        self._initial = Held(aggregate.initial, 0)

    # ---- deciding -------------------------------------------------------------------------------

    def decide(self, batch: Sequence[Asked], now_ms: int) -> Draft:
        """Decide these one after another, until a batch is full: `Draft.asked` says how many.

        All or nothing: whatever is raised (not by a command: that is its own answer) leaves no trace.
        """
        draft = Draft(last_ms_before=self.last_ms)
        self.last_ms = max(self.last_ms, now_ms)
        try:
            for asked in batch:
                if draft.bytes > BATCH_BYTES:
                    break
                draft.outcomes.append(self._decide(asked, draft))
                draft.asked.append(asked)
        except BaseException:
            self.undo(draft)
            raise
        return draft

    def _decide(self, asked: Asked, draft: Draft) -> Answer | Exception:
        decision = (asked.id, asked.command_id)
        # Whatever becomes of it: what was looked for once must be looked for again.
        self.cleared.discard(decision)
        known = self._decided.get(decision)
        if known is None and asked.former:
            known = self._decided.get((asked.id, asked.former))
        if known is not None:
            return _again(asked, known)
        if asked.id in self.broken:
            return self.broken_error(asked.id)
        before = self.held.get(asked.id, self._initial)
        try:
            verdict = judge(self.aggregate, self.codec, asked, before.state, before.version)
        except EventsError as error:
            return error
        answer = self._enter(asked.id, before.version, verdict, draft)
        draft.decisions.append(decision)
        self._decided[decision] = Known(answer, self.last_ms, verdict.fingerprint)
        return answer

    def _enter(self, id: str, version: int, verdict: Verdict, draft: Draft) -> Answer:
        """What was judged becomes what is known."""
        name, partition = self.aggregate.name, self.partition
        if verdict.line is not None and verdict.line_record is not None:
            draft.lines.append(verdict.line_record)
            draft.bytes += len(verdict.line_record[1])
            return answers.of_line(verdict.line, name, partition, self.next_offset)
        draft.undo.append((id, self.held.get(id)))
        count = len(verdict.events)
        self.held[id] = Held(verdict.state, version + count)
        draft.events += verdict.events
        for _, value in verdict.events:
            draft.bytes += len(value)
        self.next_offset += count
        return Accepted(name, partition, id, version + count, count, self.next_offset)

    def undo(self, draft: Draft) -> None:
        """As if it had not been decided; the drafts behind it must have been undone before."""
        for id, held in reversed(draft.undo):
            if held is None:
                del self.held[id]
            else:
                self.held[id] = held
        for decision in draft.decisions:
            self._decided.pop(decision, None)
        self.next_offset -= len(draft.events)
        if draft.last_ms_before is not None:
            self.last_ms = draft.last_ms_before

    # ---- what the log says ----------------------------------------------------------------------

    def doubtful(self, asked: Asked) -> bool:
        """Whether it may have been decided longer ago than is remembered."""
        return (
            self.remembered_from_ms > 0
            and not asked.fresh
            and asked.sent_ms - SKEW_MS < self.remembered_from_ms
            and (decision := (asked.id, asked.command_id)) not in self._decided
            and (asked.id, asked.former) not in self._decided
            and decision not in self.cleared
        )

    def looked_up(self, asked: Sequence[Asked], found: Mapping[Decision, Known]) -> None:
        """What the log said of these: decided as it says, or not decided."""
        for decision, known in found.items():
            self.learn(decision, known._replace(at_ms=self.last_ms))
        self.cleared.update(
            decision
            for each in asked
            if (decision := (each.id, each.command_id)) not in found
            and (each.id, each.former) not in found
        )

    def learn(self, decision: Decision, known: Known) -> None:
        """A decision that was found in the log."""
        self._decided.pop(decision, None)
        self._decided[decision] = known

    def replay(
        self,
        events: Sequence[Any],
        offsets: Sequence[int],
        times: Sequence[int],
        *,
        is_excised: Callable[[str, int], bool] = lambda id, offset: False,
    ) -> None:
        """Take in events of the log that are behind what is known; in order.

        `is_excised` says of a hole before an event, by its aggregate and offset, whether it is meant.
        """
        held, apply, initial = self.held, self.aggregate.apply, self._initial
        broken, holed = self.broken, self._holed
        for event, offset in zip(events, offsets, strict=True):
            id: str = event.id
            before = held.get(id, initial)
            if event.n <= before.version:
                continue  # a snapshot is ahead
            if broken and id in broken:
                continue
            if event.n != before.version + 1:
                if not is_excised(id, offset):
                    place = (self.aggregate.name, self.partition)
                    raise gap(*place, id, offset, event.n, before.version)
                holed.add(id)
            try:
                held[id] = Held(apply(before.state, event.data), event.n)
            except Exception as error:
                if id not in holed:
                    raise
                self._break(id, error)
        if offsets:
            self.next_offset = offsets[-1] + 1
            self.last_ms = max(self.last_ms, times[-1])
        self.remember_events(events, offsets, times)

    def drop(self, id: str, events: Sequence[Any]) -> None:
        """A tombstone: forget the state and the reasons, and begin again with what the log still has."""
        self.held.pop(id, None)
        self.broken.pop(id, None)
        if events:
            self._holed.add(id)
            try:
                state = self.aggregate.replay(each.data for each in events)
                self.held[id] = Held(state, events[-1].n)
            except Exception as error:
                self._break(id, error)
        for decision, known in list(self._decided.items()):
            if decision[0] == id and isinstance(known.answer, Refused):
                del self._decided[decision]

    def _break(self, id: str, error: Exception) -> None:
        self.held.pop(id, None)
        self.broken[id] = f"{type(error).__name__}: {error}"

    def broken_error(self, id: str) -> DecideFailed:
        name = self.aggregate.name
        return DecideFailed(
            f"what is left of the events of {id} cannot be applied: {self.broken[id]}",
            hint=f"nothing was written; headwater forget {id} --excise {name} takes the rest out, too",
        )

    def remember_events(
        self, events: Sequence[Any], offsets: Sequence[int], times: Sequence[int]
    ) -> None:
        """Only who decided what, of the last ones."""
        name, partition = self.aggregate.name, self.partition
        first = bisect_left(times, self.last_ms - KEEP_MS)
        first = max(0, min(first, len(events) - self.window))
        if first:
            self.remembered_from_ms = max(self.remembered_from_ms, times[first - 1])
        counts: dict[Decision, int] = {}
        for event, offset, at in zip(events[first:], offsets[first:], times[first:], strict=True):
            decision = (event.id, event.command)
            count = counts[decision] = counts.get(decision, 0) + 1
            found = Accepted(name, partition, event.id, event.n, count, offset + 1)
            self.learn(decision, Known(found, at, event.fingerprint))
        self.trim()

    def remember_lines(self, lines: Sequence[answers.Line], times: Sequence[int]) -> None:
        """Refusals, and commands that had nothing to do."""
        for line, at in zip(lines, times, strict=True):
            if line.id == acknowledgement.ID:
                continue
            answer = answers.of_line(line, self.aggregate.name, self.partition, self.next_offset)
            self.learn((line.id, line.command), Known(answer, at, line.fingerprint))
        self.trim()

    def trim(self) -> None:
        """Forget the oldest decisions beyond the window."""
        extra = len(self._decided) - self.window
        if extra <= 0:
            return
        oldest: list[Decision] = []
        for decision, known in self._decided.items():
            if len(oldest) == extra or known.at_ms >= self.last_ms - KEEP_MS:
                break
            oldest.append(decision)
        for decision in oldest:
            known = self._decided.pop(decision)
            self.remembered_from_ms = max(self.remembered_from_ms, known.at_ms)


def _again(asked: Asked, known: Known) -> Answer | Exception:
    """What a command is told whose id was decided before."""
    fingerprint = asked.fingerprint() if known.fingerprint else ""
    if fingerprint and fingerprint != known.fingerprint:
        return IdReused(
            f"{asked.id} has decided another command under the id {asked.command_id!r}",
            hint="nothing was written; give this command an id of its own",
        )
    return known.answer if asked.in_doubt else answers.repeated(known.answer)
