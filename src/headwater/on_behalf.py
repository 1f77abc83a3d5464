"""For whom a program asks: the one person behind a request, in the client id that goes with it; pure.

Written by programs that serve many people over connections of their own (the console), read by the broker's
audit. It is a claim, as a client id is; the audit believes it of the principals of `audit.delegates`.

    headwater-console; for=User:ann

And who wrote a record of the log's own, as the broker knows it: two headers that it alone writes.
"""

from __future__ import annotations

PRINCIPAL, HOST = "headwater.principal", "headwater.host"
_MARK = "; for="
PERSON_CHARACTERS_MAX = 200


def client_id(program: str, person: str) -> str:
    """What a program calls itself when it asks for somebody."""
    plain = "".join(each if each.isprintable() else "?" for each in person)
    return f"{program}{_MARK}{plain[:PERSON_CHARACTERS_MAX]}"


def person_of(client_id: str | None) -> str | None:
    """Whom it asks for, as it says; None: for itself."""
    _, mark, person = (client_id or "").partition(_MARK)
    return person[:PERSON_CHARACTERS_MAX] if mark and person else None
