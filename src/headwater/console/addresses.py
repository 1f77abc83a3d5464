"""The console's own addresses: where it listens by default, and links within it; pure."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from headwater.project.ports import host_of, is_loopback, same_origin, split, url_of

__all__ = ["DEFAULT", "host_of", "is_loopback", "link", "same_origin", "split", "url_of"]

DEFAULT = "127.0.0.1:8765"


def link(path: str, **query: object) -> str:
    """An address within the console, with whatever characters the values have."""
    given = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, quote_via=quote)}" if given else path
