"""Who may do what, and how much of it: tokens with scopes, what a request needs, what a sender may use; pure.

Called by `guard` and `config`.

    [edges.tokens.shop]
    secret = "${SHOP_TOKEN}"             # or a list of two, while one is being replaced
    read = ["orders", "view:*"]          # topics, view:NAME, group:NAME, edges:status; * is any characters
    write = ["orders", "shop.*"]
    admin = ["shop.*"]                   # topics that it may create, configure and delete

A scope reaches what is of its own kind: `g*` topics, and no group. Only `*` alone is more, all but groups:
who is a member of one moves its position for others, so groups are named. A star never reaches a topic
whose name begins with two underscores: those are the log's own. No scope reaches the keys of personal data.

How much in a second: a bucket each, filled steadily. It holds what is granted in `BURST_S` seconds, so that a
sender who was quiet may come with several at once.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from headwater.client.namespace import KEY_TOPICS
from headwater.edges.hooks.config import secret_complaints, secrets_of, unknown_settings
from headwater.secrets import Secrets

SECRET_CHARACTERS_MIN = 16
STATUS = "edges:status"
"""What /status, /metrics and whatever has no scope of its own need."""
_SETTINGS = ("secret", "read", "write", "admin")
_WAYS = ("read", "write", "admin")
_SCOPE = re.compile(r"(view:|group:)?[A-Za-z0-9._*-]+|edges:status")
_TOPIC, _VIEW, _GROUP, _EDGES = ("", "view:", "group:", "edges:")
"""What a name begins with; topics begin with none of them, as theirs have no colon."""
_OPEN = ("/healthz", "/openapi.json")
KNOWN = "known"
"""Any token: what is asked for stands in the body or is a list, and the handler looks (`rest.access`)."""
_BY_HANDLER = (["v3"], ["consumers"])


class Need(NamedTuple):
    """`way` is read, write, admin or known; `what` a topic, view:NAME, group:NAME or edges:status."""

    way: str
    what: str


class Scope(NamedTuple):
    kinds: tuple[str, ...]
    names: re.Pattern[str]

    def covers(self, what: str) -> bool:
        return _kind(what) in self.kinds and self.names.fullmatch(what) is not None


@dataclass(frozen=True)
class Token:
    """A sender or reader that is known."""

    name: str
    read: tuple[Scope, ...] = ()
    write: tuple[Scope, ...] = ()
    admin: tuple[Scope, ...] = ()

    def may(self, need: Need) -> bool:
        if need.way == KNOWN:
            return True
        scopes = {"write": self.write, "admin": self.admin}.get(need.way, self.read)
        return any(scope.covers(need.what) for scope in scopes)


class Tokens:
    """All of them, found by the hash of their secret: how long that takes tells nobody anything."""

    def __init__(self, sections: Mapping[str, Mapping[str, Any]]) -> None:
        self._tokens = [
            (
                Token(name, *(_scopes(section, way) for way in _WAYS)),
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


BURST_S = 2.0
SENDERS_MOST = 10_000
AT_ONCE_WAIT_S = 1.0


class Rates:
    """`per_second` 0: no limit. The senders that were heard of longest ago are forgotten first."""

    def __init__(self, per_second: float, senders_most: int = SENDERS_MOST) -> None:
        self._rate = per_second
        self._size = max(1.0, per_second * BURST_S)
        self._most = senders_most
        self._buckets: dict[str, tuple[float, float]] = {}
        """Sender → (what was left, when)."""

    def __len__(self) -> int:
        return len(self._buckets)

    def wait_s(self, sender: str, now: float, cost: float = 1.0) -> float:
        """0: go on. Else the seconds after which it would be granted; this one is not counted."""
        if self._rate <= 0:
            return 0.0
        left = self._left(sender, now)
        granted = left >= cost
        self._keep(sender, left - cost if granted else left, now)
        return 0.0 if granted else (cost - left) / self._rate

    def used(self, sender: str, cost: float, now: float) -> None:
        """What was not asked for before, as nobody knew it; it may be more than was left."""
        if self._rate > 0 and cost:
            self._keep(sender, self._left(sender, now) - cost, now)

    def _left(self, sender: str, now: float) -> float:
        left, since = self._buckets.pop(sender, (self._size, now))
        return min(self._size, left + max(0.0, now - since) * self._rate)

    def _keep(self, sender: str, left: float, now: float) -> None:
        self._buckets[sender] = (left, now)
        if len(self._buckets) > self._most:
            del self._buckets[next(iter(self._buckets))]


class TooMuch(NamedTuple):
    sentence: str
    wait_s: float


class SenderLimits(Protocol):
    """Of [edges.limits]; 0: no limit."""

    @property
    def requests_per_second(self) -> float: ...
    @property
    def bytes_per_second(self) -> float: ...
    @property
    def requests_at_once(self) -> int: ...


class Allowance:
    """What each sender may use, and how much of it is in use."""

    def __init__(self, limits: SenderLimits) -> None:
        self._requests = Rates(limits.requests_per_second)
        self._bytes = Rates(limits.bytes_per_second)
        self._at_once_max = limits.requests_at_once
        self._at_once: Counter[str] = Counter()

    def begin(self, sender: str, now: float) -> TooMuch | None:
        """A request. None: it may go on, and `end` must follow."""
        if self._at_once_max and self._at_once[sender] >= self._at_once_max:
            return TooMuch("too many requests of one sender at once", AT_ONCE_WAIT_S)
        if wait_s := self._bytes.wait_s(sender, now, 0.0):
            return TooMuch("too many bytes from and to one sender", wait_s)
        if wait_s := self._requests.wait_s(sender, now):
            return TooMuch("too many requests from one sender", wait_s)
        self._at_once[sender] += 1
        return None

    def used(self, sender: str, size: int, now: float) -> None:
        """Bytes of a body or an answer, of a request that has begun."""
        self._bytes.used(sender, size, now)

    def end(self, sender: str) -> None:
        self._at_once[sender] -= 1
        if not self._at_once[sender]:
            del self._at_once[sender]


def needed(method: str, path: str) -> Need | None:
    """What a request to `path` needs; None: nothing, or a signature that its handler looks at."""
    parts = path.split("/")
    if path in _OPEN or parts[1:2] == ["hooks"]:
        return None
    if parts[1:2] == ["topics"] and len(parts) > 2:
        way = "read" if method in ("GET", "HEAD", "WEBSOCKET") else "write"
        return Need(way, parts[2])
    if parts[1:2] in _BY_HANDLER and len(parts) > 2:
        return Need(KNOWN, "")
    if parts[1:2] == ["views"] and len(parts) > 2:
        return Need("read", f"view:{parts[2]}")
    return Need("read", STATUS)


def check(name: str, section: Mapping[str, Any]) -> list[str]:
    """[edges.tokens.NAME]: a sentence for each mistake."""
    said = unknown_settings(section, _SETTINGS)
    wrong = secret_complaints(section.get("secret"))
    if not wrong and any(len(each) < SECRET_CHARACTERS_MIN for each in _secrets(section)):
        wrong = [f"secret has less than {SECRET_CHARACTERS_MIN} characters: openssl rand -hex 16"]
    said += wrong
    if not any(section.get(way) for way in _WAYS):
        said.append('may neither read nor write: add read = ["TOPIC"] or write = ["TOPIC"]')
    for way in _WAYS:
        said += _scope_complaints(way, section.get(way, []))
    return said


def _scope_complaints(way: str, scopes: object) -> list[str]:
    if not isinstance(scopes, list) or not all(isinstance(each, str) for each in scopes):
        return [f'{way} = {scopes!r} is no list of names, as in ["orders", "shop.*"]']
    return [
        f"{way}: {each!r} is no topic, no view:NAME, no group:NAME and not edges:status"
        for each in scopes
        if not _SCOPE.fullmatch(each)
    ] + [f"{way}: no token reaches {each}" for each in scopes if each in KEY_TOPICS]


def _secrets(section: Mapping[str, Any]) -> Secrets:
    return secrets_of(section["secret"])


def _scopes(section: Mapping[str, Any], way: str) -> tuple[Scope, ...]:
    return tuple(_scope(each) for each in section.get(way, []))


def _scope(text: str) -> Scope:
    keys = "|".join(map(re.escape, KEY_TOPICS))
    own = rf"(?!({keys})$)" if text.startswith("__") else rf"(?!__|view:__|group:__|({keys})$)"
    names = re.compile(own + ".*".join(map(re.escape, text.split("*"))), re.DOTALL)
    return Scope((_TOPIC, _VIEW, _EDGES) if text == "*" else (_kind(text),), names)


def _kind(what: str) -> str:
    return next((kind for kind in (_VIEW, _GROUP, _EDGES) if what.startswith(kind)), _TOPIC)


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
