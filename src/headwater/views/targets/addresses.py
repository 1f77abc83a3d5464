"""What can be said of a view's `to` without opening it: the part behind the scheme, store by store; pure.

Called by `headwater doctor`. What `${NAME}` stands for is known only where the view runs.
"""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from headwater.value_forms import is_topic, port_complaint, without_secrets

IN_FILES = ("sqlite", "duckdb", "search", "parquet", "delta")
_SERVERS = ("postgresql", "postgres", "redis", "rediss")
"""Whose libraries take this machine where no host is named."""


def complaint(to: str) -> str | None:
    """What is wrong with it, in words that follow it; None: nothing, as far as one can see."""
    scheme, _, rest = without_secrets(to).partition(":")
    if scheme in IN_FILES:
        return None if rest.strip() else "names no place"
    if scheme == "topic":
        return _about_topic(rest)
    if scheme in _SERVERS:
        return _about_server(scheme, rest)
    if scheme.partition("+")[0] in ("opensearch", "elasticsearch"):
        return port_complaint(f"http:{rest}")
    return None


def _about_topic(rest: str) -> str | None:
    if not rest:
        return "names no topic"
    return (
        None if is_topic(rest) else "is no name that a topic can have: letters, digits, . _ and -"
    )


def _about_server(scheme: str, rest: str) -> str | None:
    if not rest.startswith("//"):
        return f"is no {scheme}://HOST"
    wrong = port_complaint(f"{scheme}:{rest}", needs_host=False)
    if wrong is not None or scheme.startswith("postgres"):
        return wrong
    parts = urlsplit(f"{scheme}:{rest}")
    number = parse_qs(parts.query).get("db", [parts.path.strip("/")])[0]
    if number and not (number.isascii() and number.isdigit()):
        return f"names the database {number!r}, and those of Redis have numbers"
    return None
