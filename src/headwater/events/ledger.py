"""What an owner knows of its partition, and how it decides: pure, no I/O, no clock, no chance.

`Owner` hands in commands and gets a `Draft`: the records to append, and the answers to give once they are
on disk. The ledger is then ahead of the log by the drafts on their way; `undo` takes the last one back.

Invariants:
- A command id must be decided once for its aggregate. Ids are remembered for the last `window` decisions
  and for KEEP_MS; a command that was sent before the oldest of these needs a look into the log first
  (`doubtful`).
- An answer, a refusal too, must be given only when its draft and all drafts before are on disk: a refusal
  follows from a state, and the state from events that may yet turn out not to have happened.
- `n` of an aggregate's events must rise by one: a gap means that the state was built from less than all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headwater.events import answers
from headwater.events.aggregate import Aggregate, as_events
from headwater.events.answers import Accepted, Answer, Refused
from headwater.events.codec import Codec
from headwater.events.commands import Asked
from headwater.events.errors import DecideFailed, EventsError

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


class Held(NamedTuple):
    """An aggregate as it is: its state, and how many events it has had."""

    state: Any
    version: int


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
    undo: list[tuple[str, Held | None]] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)


class Ledger:
    """The states of all aggregates of one partition, and what was decided lately."""

    def __init__(
        self, aggregate: Aggregate[Any], partition: int, codec: Codec, window: int = WINDOW
    ) -> None:
        self.aggregate = aggregate
        self.partition = partition
        self.codec = codec
        self.held: dict[str, Held] = {}
        self.next_offset = 0
        """Of the event topic, behind everything decided, drafts included."""
        self.last_ms = 0
        self.remembered_from_ms = 0
        """What was decided since then is remembered; 0: everything that ever was."""
        self.next_answer = 0
        """Of the answer topic: what is before it is known."""
        self.cleared: set[Decision] = set()
        """Commands from long ago that were looked for in the log, are not in it, and wait to be decided."""
        self._decided: dict[Decision, tuple[Answer, int]] = {}
        self.window = window
        self._initial = Held(aggregate.initial, 0)

    # ---- deciding -------------------------------------------------------------------------------

    def decide(self, batch: Sequence[Asked], now_ms: int) -> Draft:
        """Decide these one after another, until a batch is full: `Draft.asked` says how many."""
        draft = Draft()
        self.last_ms = max(self.last_ms, now_ms)
        for asked in batch:
            if draft.bytes > BATCH_BYTES:
                break
            draft.asked.append(asked)
            decision = (asked.id, asked.command_id)
            known = self._decided.get(decision)
            if known is not None:
                draft.outcomes.append(answers.repeated(known[0]))
                continue
            # Whatever becomes of it: what was looked for once must be looked for again.
            self.cleared.discard(decision)
            draft.outcomes.append(self._decide(asked, draft))
        return draft

    def _decide(self, asked: Asked, draft: Draft) -> Answer | Exception:
        before = self.held.get(asked.id, self._initial)
        if asked.expected is not None and asked.expected != before.version:
            reason = f"expected version {asked.expected}, found {before.version}"
            return self._without_events(asked, before, Refused(reason, answers.VERSION), draft)
        try:
            decided = self.aggregate.decide(before.state, asked.command)
            if isinstance(decided, Refused):
                return self._without_events(asked, before, decided, draft)
            events = as_events(decided)
            state, records = self._applied(asked, before, events)
        except EventsError as error:
            return error
        except Exception as error:
            failed = DecideFailed(
                f"{self.aggregate.name} failed at {type(asked.command).__name__} of {asked.id}: "
                f"{type(error).__name__}: {error}",
                hint="nothing was written; a rule should return Refused",
            )
            failed.__cause__ = error
            return failed
        if not events:
            return self._without_events(asked, before, None, draft)
        draft.undo.append((asked.id, self.held.get(asked.id)))
        self.held[asked.id] = Held(state, before.version + len(events))
        draft.events += records
        for _, value in records:
            draft.bytes += len(value)
        self.next_offset += len(events)
        return self._remember(asked, self._accepted(asked.id, len(events)), draft)

    def _applied(
        self, asked: Asked, before: Held, events: tuple[object, ...]
    ) -> tuple[Any, list[tuple[bytes, bytes]]]:
        state, apply, encode = before.state, self.aggregate.apply, self.codec.encode
        key, records = asked.id.encode(), []
        for n, event in enumerate(events, before.version + 1):
            state = apply(state, event)
            records.append((key, encode(event, asked.id, n, asked.command_id, asked.meta)))
        return state, records

    def _without_events(
        self, asked: Asked, before: Held, refused: Refused | None, draft: Draft
    ) -> Answer:
        if refused is None:
            line = answers.Line(asked.command_id, asked.id, before.version)
        else:
            line = answers.Line(
                asked.command_id, asked.id, before.version, refused.reason, refused.kind
            )
        draft.lines.append((asked.id.encode(), answers.encode(line)))
        draft.bytes += len(draft.lines[-1][1])
        answer = refused if refused is not None else self._accepted(asked.id, 0)
        return self._remember(asked, answer, draft)

    def _accepted(self, id: str, events: int) -> Accepted:
        version = self.held.get(id, self._initial).version
        return Accepted(self.aggregate.name, self.partition, id, version, events, self.next_offset)

    def _remember(self, asked: Asked, answer: Answer, draft: Draft) -> Answer:
        decision = (asked.id, asked.command_id)
        draft.decisions.append(decision)
        self._decided[decision] = (answer, self.last_ms)
        return answer

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

    # ---- what the log says ----------------------------------------------------------------------

    def doubtful(self, asked: Asked) -> bool:
        """Whether it may have been decided longer ago than is remembered."""
        return (
            self.remembered_from_ms > 0
            and not asked.fresh
            and asked.sent_ms - SKEW_MS < self.remembered_from_ms
            and (decision := (asked.id, asked.command_id)) not in self._decided
            and decision not in self.cleared
        )

    def looked_up(self, asked: Sequence[Asked], found: Mapping[Decision, Answer]) -> None:
        """What the log said of these: decided as it says, or not decided."""
        for decision, answer in found.items():
            self.learn(decision, answer, self.last_ms)
        self.cleared.update({(each.id, each.command_id) for each in asked} - found.keys())

    def learn(self, decision: Decision, answer: Answer, at_ms: int) -> None:
        """A decision that was found in the log."""
        self._decided.pop(decision, None)
        self._decided[decision] = (answer, at_ms)

    def replay(
        self,
        events: Sequence[Any],
        offsets: Sequence[int],
        times: Sequence[int],
        *,
        is_whole: bool = True,
    ) -> None:
        """Take in events of the log that are behind what is known; in order.

        `is_whole`: the log is read from its start, so that what is missing before an aggregate's first
        event was excised; else its snapshot is missing.
        """
        held, apply, initial = self.held, self.aggregate.apply, self._initial
        name, partition = self.aggregate.name, self.partition
        for event, offset in zip(events, offsets, strict=True):
            id: str = event.id
            before = held.get(id, initial)
            if event.n <= before.version:
                continue  # a snapshot is ahead
            if event.n != before.version + 1 and (before.version or not is_whole):
                raise EventsError(
                    f"{name}-{partition} offset {offset}: event {event.n} of {id} follows "
                    f"event {before.version}",
                    hint="somebody else wrote to the topic, or events were excised; see "
                    "docs/event-sourcing.md",
                )
            held[id] = Held(apply(before.state, event.data), event.n)
        if offsets:
            self.next_offset = offsets[-1] + 1
            self.last_ms = max(self.last_ms, times[-1])
        self.remember_events(events, offsets, times)

    def drop(self, id: str, events: Sequence[Any]) -> None:
        """A tombstone: forget the state and the reasons, and begin again with what the log still has."""
        self.held.pop(id, None)
        if events:
            state = self.aggregate.replay(each.data for each in events)
            self.held[id] = Held(state, events[-1].n)
        for decision, (answer, _) in list(self._decided.items()):
            if decision[0] == id and isinstance(answer, Refused):
                del self._decided[decision]

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
            self.learn(decision, found, at)
        self.trim()

    def remember_lines(self, lines: Sequence[answers.Line], times: Sequence[int]) -> None:
        """Refusals, and commands that had nothing to do."""
        for line, at in zip(lines, times, strict=True):
            if line.refused is not None:
                answer: Answer = Refused(line.refused, line.kind)
            else:
                answer = Accepted(
                    self.aggregate.name, self.partition, line.id, line.n, 0, self.next_offset
                )
            self.learn((line.id, line.command), answer, at)
        self.trim()

    def trim(self) -> None:
        """Forget the oldest decisions beyond the window."""
        extra = len(self._decided) - self.window
        if extra <= 0:
            return
        oldest: list[Decision] = []
        for decision, (_, at) in self._decided.items():
            if len(oldest) == extra or at >= self.last_ms - KEEP_MS:
                break
            oldest.append(decision)
        for decision in oldest:
            _, at = self._decided.pop(decision)
            self.remembered_from_ms = max(self.remembered_from_ms, at)
