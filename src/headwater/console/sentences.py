"""Errors, numbers and times as a person reads them; pure, used by every page."""

from __future__ import annotations

import logging
import time
from typing import Any

from headwater.errors import HeadwaterError

log = logging.getLogger(__name__)
_AWAY = ("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT")


def is_expected(error: BaseException) -> bool:
    """Whether it is an answer of the world, and not a mistake of ours."""
    said: Any = error.args[0] if error.args else None
    return isinstance(error, HeadwaterError | OSError) or hasattr(said, "retriable")


def sentence_of(error: BaseException) -> tuple[str, str | None]:
    """What went wrong, and what to do; what nobody expected is logged with its traceback."""
    if isinstance(error, HeadwaterError):
        return _begun(str(error)), error.hint
    said: Any = error.args[0] if error.args else None
    if hasattr(said, "name") and hasattr(said, "str"):  # confluent-kafka's
        if said.name() in _AWAY:
            return "The broker does not answer.", "The page goes on by itself once it does."
        return _begun(f"the broker refused: {said.str()} ({said.name()})"), None
    if isinstance(error, TimeoutError | ConnectionError):
        return "The broker does not answer.", "The page goes on by itself once it does."
    log.error("a page of the console failed", exc_info=error)
    text = str(error).strip().splitlines()
    return (
        f"{type(error).__name__}: {text[0] if text else 'no further words'}",
        "The console's log has more.",
    )


def number(value: float | None) -> str:
    """1234567 as 1,234,567; what is not known as a dash."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def short(value: float | None) -> str:
    """1234567 as 1.2 M, where there is little room."""
    if value is None:
        return "–"
    for unit, least, one in (("G", 1e9, 1e9), ("M", 1e6, 1e6), ("k", 1e4, 1e3)):
        if value >= least:
            return f"{value / one:,.{0 if value / one >= 100 else 1}f} {unit}"
    return number(value)


def size(count: float | None) -> str:
    """Bytes, in units of 1024."""
    if count is None:
        return "–"
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"


def duration(seconds: float | None) -> str:
    """A length of time with one unit."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def ago(at_ms: float | None) -> str:
    """When something was, seen from now."""
    if at_ms is None:
        return "never"
    return f"{duration(max(0.0, time.time() - at_ms / 1000))} ago"


def _begun(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" if text else "No further words."
