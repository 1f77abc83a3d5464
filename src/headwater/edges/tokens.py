"""Who may do what: tokens with scopes, and what a request needs; pure.

Called by `guard` and `config`.

    [edges.tokens.shop]
    secret = "${SHOP_TOKEN}"             # or a list of two, while one is being replaced
    read = ["orders", "view:*"]          # topics, view:NAME, edges:status; * stands for any characters
    write = ["orders", "shop.*"]

A star never reaches a topic whose name begins with two underscores: those are the log's own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from headwater.capture.config import expand
from headwater.edges.hooks.config import nearest, secret_complaints

SECRET_CHARACTERS_MIN = 16
STATUS = "edges:status"
"""What /status, /metrics and whatever has no scope of its own need."""
_SETTINGS = ("secret", "read", "write")
_SCOPE = re.compile(r"(view:)?[A-Za-z0-9._*-]+|edges:status")
_OPEN = ("/healthz", "/openapi.json")


class Need(NamedTuple):
    """`way` is read or write; `what` a topic, view:NAME or edges:status."""

    way: str
    what: str


@dataclass(frozen=True)
class Token:
    """A sender or reader that is known."""

    name: str
    read: tuple[re.Pattern[str], ...] = ()
    write: tuple[re.Pattern[str], ...] = ()

    def may(self, need: Need) -> bool:
        patterns = self.write if need.way == "write" else self.read
        return any(pattern.fullmatch(need.what) for pattern in patterns)


class Tokens:
    """All of them, found by the hash of their secret: how long that takes tells nobody anything."""

    def __init__(self, sections: Mapping[str, Mapping[str, Any]]) -> None:
        self._by_hash: dict[bytes, Token] = {}
        for name, section in sections.items():
            token = Token(name, _patterns(section, "read"), _patterns(section, "write"))
            for secret in _secrets(section):
                self._by_hash[_hash(secret)] = token

    def __bool__(self) -> bool:
        return bool(self._by_hash)

    def find(self, secret: str) -> Token | None:
        return self._by_hash.get(_hash(secret))


def needed(method: str, path: str) -> Need | None:
    """What a request to `path` needs; None: nothing, or a signature that its handler looks at."""
    parts = path.split("/")
    if path in _OPEN or parts[1:2] == ["hooks"]:
        return None
    if parts[1:2] == ["topics"] and len(parts) > 2:
        way = "read" if method in ("GET", "HEAD", "WEBSOCKET") else "write"
        return Need(way, parts[2])
    if parts[1:2] == ["views"] and len(parts) > 2:
        return Need("read", f"view:{parts[2]}")
    return Need("read", STATUS)


def check(name: str, section: Mapping[str, Any]) -> list[str]:
    """[edges.tokens.NAME]: a sentence for each mistake."""
    said = [
        f"has no setting {setting!r}{nearest(setting, _SETTINGS)}"
        for setting in section
        if setting not in _SETTINGS
    ]
    wrong = secret_complaints(section.get("secret"))
    if not wrong and any(len(each) < SECRET_CHARACTERS_MIN for each in _secrets(section)):
        wrong = [f"secret has less than {SECRET_CHARACTERS_MIN} characters: openssl rand -hex 16"]
    said += wrong
    if not section.get("read") and not section.get("write"):
        said.append('may neither read nor write: add read = ["TOPIC"] or write = ["TOPIC"]')
    for way in ("read", "write"):
        said += _scope_complaints(way, section.get(way, []))
    return said


def _scope_complaints(way: str, scopes: object) -> list[str]:
    if not isinstance(scopes, list) or not all(isinstance(each, str) for each in scopes):
        return [f'{way} = {scopes!r} is no list of names, as in ["orders", "shop.*"]']
    return [
        f"{way}: {each!r} is no topic, no view:NAME and not edges:status"
        for each in scopes
        if not _SCOPE.fullmatch(each)
    ]


def _secrets(section: Mapping[str, Any]) -> list[str]:
    given = section["secret"]
    return [expand(each) for each in (given if isinstance(given, list) else [given])]


def _patterns(section: Mapping[str, Any], way: str) -> tuple[re.Pattern[str], ...]:
    return tuple(_pattern(each) for each in section.get(way, []))


def _pattern(scope: str) -> re.Pattern[str]:
    own = "" if scope.startswith("__") else r"(?!__|view:__)"
    return re.compile(own + ".*".join(map(re.escape, scope.split("*"))), re.DOTALL)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
