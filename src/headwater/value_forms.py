"""Forms that values of headwater.toml have, whichever section they stand in; pure.

Called by every reader of a section. TOML also knows `nan` and `inf`, and texts may hold what cannot be seen;
to Python `true` is a number. What passes here can be used as it is.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

WHOLE_MOST = 2**31 - 1
"""Of a size or a count: what a C library's `int`, and Kafka's own settings, can hold."""
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PLACE = re.compile(r"\$\{[^{}]*\}")


def is_text(value: object) -> bool:
    """One that says something, and can be shown."""
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def are_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(is_text, value))


def text_complaint(value: object) -> str | None:
    """What is wrong with a text, in words that follow it; None: nothing."""
    if not isinstance(value, str) or not value.strip():
        return "is no text in quotes"
    return None if value.isprintable() else "holds characters that cannot be shown"


def is_topic(value: object) -> bool:
    """A name that Kafka takes for a topic."""
    return isinstance(value, str) and bool(_TOPIC.fullmatch(value)) and value not in (".", "..")


def is_number(value: object, low: float, high: float = 2**63) -> bool:
    """Both ends included; `nan` and `inf` are none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return low <= value <= high


def is_positive(value: object) -> bool:
    return is_number(value, 0) and value != 0


def is_whole(value: object, low: int, high: int = WHOLE_MOST) -> bool:
    return type(value) is int and low <= value <= high


def is_web_address(value: object) -> bool:
    """http:// or https:// with a host, and a port that there can be."""
    if not isinstance(value, str):
        return False
    given = without_secrets(value)
    return given.startswith(("http://", "https://")) and port_complaint(given) is None


def without_secrets(address: str) -> str:
    """With a digit, which fits everywhere, in place of each `${NAME}`: it may not be set here and now."""
    return _PLACE.sub("1", address)


def port_complaint(address: str, *, needs_host: bool = True) -> str | None:
    """What is wrong with hosts or ports of SCHEME://…, in words that follow it; None: nothing."""
    try:
        parts = urlsplit(address)
        hosts = [urlsplit(f"//{each}") for each in parts.netloc.rpartition("@")[2].split(",")]
        if needs_host and not all(each.hostname for each in hosts):
            return "names no host"
        if any(each.port == 0 for each in hosts):
            return "has port 0, where nobody can be found"
    except ValueError as error:
        return f"is no address: {error}"
    if not address.isprintable() or " " in parts.netloc:
        return "is no address: it has spaces or characters that cannot be shown"
    return None
