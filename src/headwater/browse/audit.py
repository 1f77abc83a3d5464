"""Who changed what: the newest of what the broker wrote down; for `headwater audit` and the console.

Two topics, written by the broker alone: `__headwater_changes` (topics, settings, users, permissions, quotas,
groups) and `__headwater_audit` (excisions). Apache Kafka has neither, and then there is nothing to tell. A
third is written by whoever changes what the broker does not know: `__headwater_edge_changes`, by the edges
(webhook subscriptions, with the token that asked), the console and the command line (parts of the project
that were paused, resumed or restarted). Whoever may write that one tells of these only, and under the name
that the broker knows him by.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.browse.pages import page
from headwater.client import topics
from headwater.client.errors import NotThere
from headwater.client.log import Log
from headwater.client.publisher import Draft, publish
from headwater.client.records import Record
from headwater.on_behalf import HOST, PRINCIPAL

CHANGES, EXCISIONS = "__headwater_changes", "__headwater_audit"
EDGE_CHANGES = "__headwater_edge_changes"
EDGE_CHANGES_CONFIGS = {"retention_ms": str(365 * 86_400_000), "retention_bytes": str(1024**3)}
WEBHOOK, PART = "webhook", "part"
UNKNOWN = "an unknown writer"
"""Of a line that no broker of ours has signed."""
TEXT_CHARACTERS_MAX = 250
_OF_WEBHOOKS = ("topic", "to", "paused")


@dataclass(frozen=True)
class Entry:
    """One change, or one that was refused."""

    at_ms: int
    principal: str
    """As the broker knows it."""
    client_id: str
    """What the client calls itself."""
    host: str
    what: str
    kind: str
    name: str
    details: Mapping[str, object] = field(default_factory=dict)
    error: str | None = None
    """Why it was not done; None: it was."""
    on_behalf_of: str = ""
    """For whom, where the broker takes the principal's word for it."""

    @property
    def who(self) -> str:
        """As a table says it."""
        return f"{self.on_behalf_of}, by {self.principal}" if self.on_behalf_of else self.principal

    def as_json(self) -> dict[str, object]:
        return {**vars(self), "details": dict(self.details)}


def newest(log: Log, count: int) -> list[Entry]:
    """The newest first, at most so many."""
    found: list[Entry] = []
    for topic, read in (
        (CHANGES, change_of),
        (EDGE_CHANGES, edge_change_of),
        (EXCISIONS, excision_of),
    ):
        try:
            records = page(log, topic, back=True, limit=count).records
        except NotThere:
            continue  # nothing was changed yet, or it is another's broker
        found += [entry for each in records if (entry := read(each)) is not None]
    return sorted(found, key=lambda entry: -entry.at_ms)[:count]


def tell_of_part(log: Log, name: str, what: str, by: str) -> None:
    """Somebody wants a part of the project paused, resumed or restarted; raises where that cannot be
    written down."""
    said = {"kind": PART, "on_behalf_of": by, "what": what, "name": name}
    topics.ensure(log, EDGE_CHANGES, 1, **EDGE_CHANGES_CONFIGS)
    publish(log, EDGE_CHANGES, Draft(None, json.dumps(said).encode()))


def change_of(record: Record) -> Entry | None:
    """None: not one of ours."""
    said = _object(record)
    if said is None or "what" not in said:
        return None
    details = said.get("details")
    error = said.get("error")
    return Entry(
        at_ms=_time(said.get("at_ms"), record),
        principal=str(said.get("principal") or ""),
        client_id=str(said.get("client_id") or ""),
        host=str(said.get("host") or ""),
        what=str(said["what"]),
        kind=str(said.get("kind") or ""),
        name=str(said.get("name") or ""),
        details=details if isinstance(details, dict) else {},
        error=None if error is None else str(error),
        on_behalf_of=str(said.get("on_behalf_of") or ""),
    )


def edge_change_of(record: Record) -> Entry | None:
    """What the edges tell, or who would pass for them: who that is, the broker says; the rest is a claim."""
    said = _object(record)
    if said is None or "what" not in said:
        return None
    headers = dict(record.headers)
    details = said.get("details")
    known = details if isinstance(details, dict) else {}
    return Entry(
        at_ms=record.timestamp_ms,
        principal=(headers.get(PRINCIPAL) or UNKNOWN.encode()).decode("utf-8", "replace"),
        client_id="",
        host=(headers.get(HOST) or b"").decode("utf-8", "replace"),
        what=_short(said["what"]),
        kind=PART if said.get("kind") == PART else WEBHOOK,
        name=_short(said.get("name") or ""),
        details={name: _short(known[name]) for name in _OF_WEBHOOKS if name in known},
        on_behalf_of=_short(said.get("on_behalf_of") or ""),
    )


def excision_of(record: Record) -> Entry | None:
    """A line of the excisions' own audit, in the same words."""
    said = _object(record)
    if said is None or "status" not in said:
        return None
    status = str(said["status"])
    is_done = status in ("done", "incomplete")
    kept = ("id", "request", "claimed", "dry_run", "partitions", "status")
    return Entry(
        _time(said.get("done_ms"), record),
        str(said.get("who") or ""),
        "",
        str(said.get("host") or ""),
        "try to excise" if said.get("dry_run") else "excise records",
        "topic",
        str(said.get("topic") or ""),
        {name: said[name] for name in kept if name in said},
        None if is_done else str(said.get("reason") or said.get("error") or status),
    )


def _time(said: object, record: Record) -> int:
    return said if isinstance(said, int) else record.timestamp_ms


def _object(record: Record) -> dict[str, object] | None:
    try:
        said = json.loads(record.value or b"null")
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _short(said: object) -> str:
    return _flat(said)[:TEXT_CHARACTERS_MAX]


def sentence(details: Mapping[str, object]) -> str:
    """In one line, for a table."""
    return ", ".join(f"{name}={_flat(value)}" for name, value in details.items() if value != {})


def _flat(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
