"""From one command to the bytes that will say what came of it; pure. `ledger` calls it before it changes.

What is applied, answered and remembered must be what was decoded from those bytes: an owner that reads them
later then knows the same as the one that wrote them. Whatever cannot be written and read again is refused
here, when nothing has happened yet.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from headwater.events import answers
from headwater.events.aggregate import Aggregate, as_events
from headwater.events.answers import Refused
from headwater.events.codec import Codec
from headwater.events.commands import Asked
from headwater.events.errors import DecideFailed, EventsError

Record = tuple[bytes, bytes]


class Verdict(NamedTuple):
    """Events, and the state behind them; or, where there are none, a line for the answers."""

    events: list[Record]
    state: Any
    line: answers.Line | None
    line_record: Record | None
    fingerprint: str


def judge(
    aggregate: Aggregate[Any], codec: Codec, asked: Asked, state: Any, version: int
) -> Verdict:
    """Raises EventsError: of `decide`, of `apply`, or because it could not be read again."""
    try:
        if asked.expected is not None and asked.expected != version:
            reason = f"expected version {asked.expected}, found {version}"
            return _without_events(asked, version, Refused(reason, answers.VERSION))
        decided = aggregate.decide(state, asked.command)
        if isinstance(decided, Refused):
            return _without_events(asked, version, decided)
        events = as_events(decided)
        if not events:
            return _without_events(asked, version, None)
        return _with_events(aggregate, codec, asked, state, version, events)
    except EventsError:
        raise
    except Exception as error:
        raise DecideFailed(
            f"{aggregate.name} failed at {type(asked.command).__name__} of {asked.id}: "
            f"{type(error).__name__}: {error}",
            hint="nothing was written; a rule should return Refused",
        ) from error


def _with_events(
    aggregate: Aggregate[Any],
    codec: Codec,
    asked: Asked,
    state: Any,
    version: int,
    events: tuple[object, ...],
) -> Verdict:
    apply, written = aggregate.apply, codec.written
    id, command, meta, fingerprint = asked.id, asked.command_id, asked.meta, asked.fingerprint()
    key, records = id.encode(), []
    for n, each in enumerate(events, version + 1):
        line, event = written(each, id, n, command, meta, fingerprint)
        state = apply(state, event)
        records.append((key, line))
    return Verdict(records, state, None, None, fingerprint)


def _without_events(asked: Asked, version: int, refused: Refused | None) -> Verdict:
    reason, kind = (None, answers.RULE) if refused is None else (refused.reason, refused.kind)
    fingerprint = asked.fingerprint()
    line = answers.Line(asked.command_id, asked.id, version, reason, kind, fingerprint)
    data = answers.encode(line)
    try:
        found = answers.decode(data)
    except msgspec.MsgspecError as error:
        raise _no_refusal(refused, str(error)) from None
    if found != line or (found.refused is None) != (refused is None):
        raise _no_refusal(refused, "a reason is a text")
    return Verdict([], None, found, (asked.id.encode(), data), fingerprint)


def _no_refusal(refused: Refused | None, why: str) -> DecideFailed:
    return DecideFailed(
        f"{refused} could not be read again as it is: {why}",
        hint="nothing was written; give Refused a text that says why",
    )
