"""Who may do what: tokens with scopes, and what a request needs; pure.

Called by `guard` and `config`; `oidc` has principals of an issuer with the same scopes.

    [edges.tokens.shop]
    secret = "${SHOP_TOKEN}"             # or a list of two, while one is being replaced
    read = ["orders", "view:*"]          # topics, view:NAME, group:NAME, webhook:NAME, edges:status
    write = ["orders", "shop.*"]
    admin = ["shop.*"]                   # topics that it may create, configure and delete

A scope reaches what is of its own kind: `g*` topics, and no group. Only `*` alone is more, all but groups
and webhooks: who is a member of a group moves its position for others, and by a webhook records leave, so
these are named. A star is any characters, and never reaches a topic whose name begins with two underscores:
those are the log's own. No scope reaches the keys of personal data.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from headwater.client.namespace import KEY_TOPICS
from headwater.edges.errors import Forbidden
from headwater.edges.hooks.config import secret_complaints, secrets_of, unknown_settings
from headwater.secrets import Secrets

SECRET_CHARACTERS_MIN = 16
STATUS = "edges:status"
"""What /status, /metrics and whatever has no scope of its own need."""
WAYS = ("read", "write", "admin")
PRINCIPAL = "oidc:"
"""What the names of principals of an issuer begin with, and those of tokens do not."""
_SCOPE = re.compile(r"(view:|group:|webhook:)?[A-Za-z0-9._*-]+|edges:status")
_TOPIC, _VIEW, _GROUP, _WEBHOOK, _EDGES = ("", "view:", "group:", "webhook:", "edges:")
"""What a name begins with; topics begin with none of them, as theirs have no colon."""
_OPEN = ("/healthz", "/openapi.json")
KNOWN = "known"
"""Any token: what is asked for stands in the body or is a list, and the handler looks (`rest.access`)."""
_BY_HANDLER = (["v3"], ["consumers"])

Section = Mapping[str, Any]


class Need(NamedTuple):
    """`way` is read, write, admin or known; `what` a topic, view:NAME, group:NAME or edges:status."""

    way: str
    what: str


class Scope(NamedTuple):
    kinds: tuple[str, ...]
    names: re.Pattern[str]

    def covers(self, what: str) -> bool:
        return _kind(what) in self.kinds and self.names.fullmatch(what) is not None


Scopes = tuple[Scope, ...]


@dataclass(frozen=True)
class Token:
    """A sender or reader that is known."""

    name: str
    read: Scopes = ()
    write: Scopes = ()
    admin: Scopes = ()
    ends_at: float = inf
    """By the monotonic clock; only what an issuer has given ends."""

    def may(self, need: Need) -> bool:
        if need.way == KNOWN:
            return True
        scopes = {"write": self.write, "admin": self.admin}.get(need.way, self.read)
        return any(scope.covers(need.what) for scope in scopes)

    def refused(self, need: Need) -> Forbidden:
        if self.name.startswith(PRINCIPAL):
            who, where = "principal", "a section [edges.oidc.groups.NAME] of its groups"
        else:
            who, where = "token", f"[edges.tokens.{self.name}]"
        is_for_nobody = need.what in KEY_TOPICS
        return Forbidden(
            f"the {who} {self.name.removeprefix(PRINCIPAL)} may not {need.way} {need.what[:260]}",
            hint="no token does" if is_for_nobody else f"add it to {need.way} = […] of {where}",
        )


class Tokens:
    """All of them, found by the hash of their secret: how long that takes tells nobody anything."""

    def __init__(self, sections: Mapping[str, Section]) -> None:
        self._tokens = [
            (
                Token(name, *scopes_of(section)),
                _secrets(section),
            )
            for name, section in sections.items()
        ]
        self._known: list[tuple[str, ...]] = []
        self._by_hash: dict[bytes, Token] = {}

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def find(self, secret: str) -> Token | None:
        known = [secrets.now() for _, secrets in self._tokens]
        if known != self._known:  # a file has another now
            self._known = known
            self._by_hash = {
                _hash(each): token for token, secrets in self._tokens for each in secrets
            }
        return self._by_hash.get(_hash(secret))

    def standing(self, secret: str, token: Token) -> Callable[[], bool] | None:
        """Asks whether it still has this secret; None: it always will."""
        if not any(secrets.can_change for own, secrets in self._tokens if own is token):
            return None
        return lambda: self.find(secret) is token


def needed(method: str, path: str) -> Need | None:
    """What a request to `path` needs; None: nothing, or a signature that its handler looks at."""
    parts = path.split("/")
    if path in _OPEN or parts[1:2] == ["hooks"]:
        return None
    if path == "/topics":
        return Need(KNOWN, "")
    if parts[1:2] == ["topics"] and len(parts) > 2:
        way = "read" if method in ("GET", "HEAD", "WEBSOCKET") else "write"
        return Need(way, parts[2])
    if parts[1:2] in _BY_HANDLER and len(parts) > 2:
        return Need(KNOWN, "")
    if parts[1:2] == ["webhooks"]:
        return Need(KNOWN, "")
    if parts[1:2] == ["views"] and len(parts) > 2:
        return Need("read", f"view:{parts[2]}")
    return Need("read", STATUS)


def check(name: str, section: Section) -> list[str]:
    """[edges.tokens.NAME]: a sentence for each mistake."""
    said = unknown_settings(section, ("secret", *WAYS))
    wrong = secret_complaints(section.get("secret"))
    if not wrong and any(len(each) < SECRET_CHARACTERS_MIN for each in _secrets(section)):
        wrong = [f"secret has less than {SECRET_CHARACTERS_MIN} characters: openssl rand -hex 16"]
    if name.startswith(PRINCIPAL):
        said.append(f"has a name that begins with {PRINCIPAL}, as those of [edges.oidc] do")
    return said + wrong + scopes_complaints(section)


def scopes_complaints(section: Section) -> list[str]:
    said = []
    if not any(section.get(way) for way in WAYS):
        said.append('may neither read nor write: add read = ["TOPIC"] or write = ["TOPIC"]')
    for way in WAYS:
        said += _scope_complaints(way, section.get(way, []))
    return said


def _scope_complaints(way: str, scopes: object) -> list[str]:
    if not isinstance(scopes, list) or not all(isinstance(each, str) for each in scopes):
        return [f'{way} = {scopes!r} is no list of names, as in ["orders", "shop.*"]']
    return [
        f"{way}: {each!r} is no topic, no view:NAME, no group:NAME, no webhook:NAME and not edges:status"
        for each in scopes
        if not _SCOPE.fullmatch(each)
    ] + [f"{way}: no token reaches {each}" for each in scopes if each in KEY_TOPICS]


def _secrets(section: Section) -> Secrets:
    return secrets_of(section["secret"])


def scopes_of(section: Section) -> tuple[Scopes, Scopes, Scopes]:
    """In the order of `WAYS`."""
    read, write, admin = (tuple(_scope(each) for each in section.get(way, [])) for way in WAYS)
    return read, write, admin


def _scope(text: str) -> Scope:
    keys = "|".join(map(re.escape, KEY_TOPICS))
    own = rf"(?!({keys})$)" if text.startswith("__") else rf"(?!__|view:__|group:__|({keys})$)"
    names = re.compile(own + ".*".join(map(re.escape, text.split("*"))), re.DOTALL)
    return Scope((_TOPIC, _VIEW, _EDGES) if text == "*" else (_kind(text),), names)


def _kind(what: str) -> str:
    return next(
        (kind for kind in (_VIEW, _GROUP, _WEBHOOK, _EDGES) if what.startswith(kind)), _TOPIC
    )


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
