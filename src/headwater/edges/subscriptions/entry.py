"""One subscription as it lies in its topic, and what must hold of it; pure. For `directory` and `routes`.

    topic    __headwater_webhooks, compacted, one partition
    key      the subscription's name
    value    JSON of `Entry`; none: it was deleted

Nothing of it is expanded (`${NAME}`, `file:…`): it was written by a stranger, and the environment is ours.
Who writes the topic could be a stranger, too, so what is read from it is held to the same rules.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from headwater.browse.decoder import Decoder
from headwater.browse.filters import Filter
from headwater.client.namespace import is_own
from headwater.edges.subscriptions.settings import Settings
from headwater.edges.webhooks.addresses import url_complaint
from headwater.edges.webhooks.retry import Retrying
from headwater.errors import HeadwaterError

TOPIC = "__headwater_webhooks"
NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
ID = r"[0-9a-f]{8}"
URL_CHARACTERS_MAX = 2_000
WHERE_MAX, WHERE_CHARACTERS_MAX = 10, 500
ENTRY_BYTES_MAX = 64 * 1024
SECRETS_MAX = 2
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PRINTABLE = re.compile(r"[!-~]+")
BOUNDS: dict[str, tuple[float, float]] = {
    "parallel": (1, 16),
    "timeout_s": (1, 30),
    "attempts": (1, 100),
    "give_up_after_s": (1, 7 * 86_400),
}


class Salt(msgspec.Struct, frozen=True):
    """Of which a secret is made, by which key, and until when it signs."""

    key: str
    salt: str
    until_ms: int | None = None


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A subscription."""

    name: str
    id: str
    """Of its own: one that is made again under a name has nothing of the one before."""
    topic: str
    to: str
    secrets: tuple[Salt, ...]
    """The newest first."""
    where: tuple[str, ...] = ()
    start: str = "end"
    paused: bool = False
    parallel: int = 4
    timeout_s: float = 15.0
    attempts: int = 20
    give_up_after_s: float = 86_400.0
    made_by: str = ""
    made_ms: int = 0
    changed_by: str = ""
    changed_ms: int = 0

    @property
    def place(self) -> str:
        """Where it goes, without what may be a secret in it: of many services the path is one."""
        parts = urlsplit(self.to)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/***"

    @property
    def makers(self) -> set[str]:
        """Who answers for it: whoever changes it has to have the rights to make it."""
        return {self.made_by, self.changed_by if self.changed_ms else self.made_by}

    @property
    def service(self) -> str:
        """The name of what delivers for it, and of its dead letters."""
        return f"webhooks.{self.name}.{self.id}"

    @property
    def retrying(self) -> Retrying:
        return Retrying(attempts=self.attempts, give_up_after_s=self.give_up_after_s)

    def work(self) -> tuple[object, ...]:
        """What a running delivery must be begun anew for."""
        numbers = (self.parallel, self.timeout_s, self.attempts, self.give_up_after_s)
        return (self.id, self.topic, self.to, self.where, self.paused, *numbers)


class New(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    topic: str
    to: str
    where: tuple[str, ...] = ()
    start: str = "end"
    paused: bool = False
    parallel: int = 4
    timeout_s: float = 15.0
    attempts: int = 20
    give_up_after_s: float = 86_400.0


class Changes(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    to: str | msgspec.UnsetType = msgspec.UNSET
    where: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    paused: bool | msgspec.UnsetType = msgspec.UNSET
    parallel: int | msgspec.UnsetType = msgspec.UNSET
    timeout_s: float | msgspec.UnsetType = msgspec.UNSET
    attempts: int | msgspec.UnsetType = msgspec.UNSET
    give_up_after_s: float | msgspec.UnsetType = msgspec.UNSET


class Rotation(msgspec.Struct, forbid_unknown_fields=True):
    overlap_s: int = 86_400


def new_salt(settings: Settings) -> Salt:
    return Salt(settings.key_id, secrets.token_hex(16))


def new_id() -> str:
    return secrets.token_hex(4)


def rotated(entry: Entry, salt: Salt, until_ms: int) -> tuple[Salt, ...]:
    """Two sign until the older one's time is over; one that was on its way out already is gone."""
    before = msgspec.structs.replace(entry.secrets[0], until_ms=until_ms)
    return (salt, before)[:SECRETS_MAX]


@dataclass(frozen=True)
class Signing:
    """The secrets that sign at this moment, each time they are asked for."""

    entry: Entry
    settings: Settings
    now_ms: int

    def secrets(self) -> list[str]:
        found = [
            self.settings.secret(each.key, self.entry.id, each.salt)
            for each in self.entry.secrets
            if each.until_ms is None or self.now_ms < each.until_ms
        ]
        return [each for each in found if each is not None]


def read(value: bytes) -> Entry:
    """Raises ValueError."""
    if len(value) > ENTRY_BYTES_MAX:
        raise ValueError(f"it has more than {ENTRY_BYTES_MAX} bytes")
    try:
        return msgspec.json.decode(value, type=Entry)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None


def complaints(entry: Entry, settings: Settings) -> list[str]:
    """A sentence for each mistake."""
    said = []
    if not re.fullmatch(NAME, entry.name) or not re.fullmatch(ID, entry.id):
        said.append("name: A-Z a-z 0-9 _ -, at most 64 characters, the first a letter or digit")
    if not _TOPIC_NAME.fullmatch(entry.topic) or is_own(entry.topic):
        said.append("topic: that is none of yours")
    said += _address(entry.to, settings)
    if entry.start not in ("end", "beginning"):
        said.append('start: neither "end" nor "beginning"')
    if not 1 <= len(entry.secrets) <= SECRETS_MAX:
        said.append("secrets: one, or two while one is replaced")
    for name, (least, most) in BOUNDS.items():
        if not least <= getattr(entry, name) <= most:
            said.append(f"{name}: from {least:g} to {most:g}")
    return said + _where(entry.where)


def _address(to: str, settings: Settings) -> list[str]:
    if len(to) > URL_CHARACTERS_MAX or not _PRINTABLE.fullmatch(to):
        return [f"to: no address of at most {URL_CHARACTERS_MAX} printable characters"]
    wrong = url_complaint(to, allow_private=settings.allow_private)
    return [] if wrong is None else [f"to: {wrong}"]


def _where(where: tuple[str, ...]) -> list[str]:
    if len(where) > WHERE_MAX or any(len(each) > WHERE_CHARACTERS_MAX for each in where):
        return [f"where: at most {WHERE_MAX} conditions of {WHERE_CHARACTERS_MAX} characters"]
    try:
        Filter(where=where).compiled(Decoder())
    except HeadwaterError as error:
        return [f"where: {error.with_hint}"]
    return []


# ---- as OpenAPI describes it ----------------------------------------------------------------------

Json = dict[str, object]
_MS = {"type": ["integer", "null"]}
_NUMBERS: Json = {
    name: {
        "type": "integer" if name in ("parallel", "attempts") else "number",
        "minimum": least,
        "maximum": most,
    }
    for name, (least, most) in BOUNDS.items()
}
_TO = {"type": "string", "maxLength": URL_CHARACTERS_MAX, "description": "https://…"}
_WHERE = {
    "type": "array",
    "maxItems": WHERE_MAX,
    "items": {"type": "string", "maxLength": WHERE_CHARACTERS_MAX},
}
_CHANGEABLE: Json = {"to": _TO, "where": _WHERE, "paused": {"type": "boolean"}, **_NUMBERS}
NEW: Json = {
    "type": "object",
    "required": ["name", "topic", "to"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "pattern": f"^{NAME}$"},
        "topic": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,249}$"},
        "start": {"enum": ["end", "beginning"]},
        **_CHANGEABLE,
    },
}
CHANGES: Json = {"type": "object", "additionalProperties": False, "properties": _CHANGEABLE}
OVERLAP: Json = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"overlap_s": {"type": "integer", "minimum": 0, "maximum": 30 * 86_400}},
}
_SHOWN: Json = {
    "name": {"type": "string"},
    "topic": {"type": "string"},
    **_CHANGEABLE,
    **{name: {"type": "string"} for name in ("made_by", "changed_by")},
    **{name: {"type": "integer"} for name in ("made_ms", "changed_ms")},
    "old_secret_until_ms": _MS,
}
ONE: Json = {"type": "object", "required": list(_SHOWN), "properties": _SHOWN}
MADE: Json = {
    "type": "object",
    "required": [*_SHOWN, "secret"],
    "properties": {**_SHOWN, "secret": {"type": "string", "description": "Shown this once"}},
}
LIST: Json = {
    "type": "object",
    "required": ["webhooks"],
    "properties": {"webhooks": {"type": "array", "items": ONE}},
}
