"""Personal data: sealed with its subject's key before it leaves the caller, and sealed wherever it lies.

    Opened(owner=keys.seal("customer-17", "Alice"))         an event field of type Personal
    keys.reveal(state.owner)                                 "Alice", or None when forgotten

Commands, events, states, snapshots and views only carry the sealed form, so destroying one key makes all
of it unreadable at once, wherever it has been copied to. `keys` keeps the keys.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Personal:
    """A sealed text. `sealed` is AES-256-GCM under the subject's key: nonce, text, tag; in base64."""

    subject: str
    sealed: str

    def __str__(self) -> str:
        return "(sealed)"
