"""[edges.webhooks.NAME]: where a topic's records are sent, read and checked.

[edges.webhooks.billing]                  attempts = 20               then: the dead letters
from = "topic:orders"                     give_up_after_s = 86400     likewise
to = "https://billing.example/hooks"      first_wait_s = 0.5          doubles up to
secret = "${BILLING_SECRET}"              longest_wait_s = 600
where = ["status=paid"]                   breaker_failures = 5        in a row
start = "end"                             breaker_wait_s = 5
parallel = 16                             timeout_s = 15              of one attempt
headers = { x-api-key = "${API_KEY}" }    allow_private = false
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.browse.decoder import Decoder
from headwater.browse.filters import Filter
from headwater.edges.hooks.config import secret_complaints, secrets_of, unknown_settings
from headwater.edges.webhooks.addresses import url_complaint
from headwater.edges.webhooks.retry import Retrying
from headwater.errors import HeadwaterError
from headwater.secrets import expand
from headwater.value_forms import is_positive, is_topic, is_whole

PARALLEL, TIMEOUT_S = 16, 15.0
STARTS = ("end", "beginning")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_HEADER = re.compile(r"[A-Za-z0-9-]+")
_RESERVED = ("webhook-", "headwater-", "ce-", "host", "content-", "transfer-", "connection")
_RETRYING = {each.name: each.default for each in dataclasses.fields(Retrying)}
NUMBERS: dict[str, Any] = {"parallel": PARALLEL, "timeout_s": TIMEOUT_S, **_RETRYING}
SENDING = ("secret", "headers", "allow_private", *NUMBERS)
"""Settings that say how it is sent, whatever it is; alerts have them, too."""
_KNOWN = ("from", "to", "where", "start", *SENDING)


@dataclass(frozen=True)
class Posting:
    """How one receiver is called."""

    url: str
    secrets: Iterable[str]
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = TIMEOUT_S
    allow_private: bool = False


@dataclass(frozen=True)
class Subscription:
    """A checked section."""

    name: str
    topic: str
    posting: Posting
    filter: Filter = field(default_factory=Filter)
    start: str = "end"
    parallel: int = PARALLEL
    retrying: Retrying = field(default_factory=Retrying)


def check(name: str, section: Mapping[str, Any]) -> list[str]:
    """A sentence for each mistake."""
    said = unknown_settings(section, _KNOWN)
    said += name_complaints(name)
    for setting in ("from", "to", "secret"):
        if setting not in section:
            said.append(f"lacks `{setting} = …`")
    if "from" in section and topic_of(section["from"]) is None:
        said.append(f'from = {section["from"]!r} is no "topic:NAME"')
    if section.get("start", "end") not in STARTS:
        said.append(f'start = {section["start"]!r} is neither "end" nor "beginning"')
    if "to" in section:
        said += to_complaints(section)
    said += where_complaints(section.get("where", []))
    return said + sending_complaints(section)


def read(name: str, section: Mapping[str, Any]) -> Subscription:
    """A section in which `check` found nothing."""
    return Subscription(
        name,
        topic_of(section["from"]) or "",
        posting_of(section, section["to"]),
        Filter(where=tuple(section.get("where", []))),
        section.get("start", "end"),
        section.get("parallel", PARALLEL),
        retrying_of(section),
    )


def posting_of(section: Mapping[str, Any], url: str) -> Posting:
    return Posting(
        expand(url),
        secrets_of(section["secret"]),
        {key.lower(): expand(value) for key, value in section.get("headers", {}).items()},
        section.get("timeout_s", TIMEOUT_S),
        section.get("allow_private", False),
    )


def retrying_of(section: Mapping[str, Any]) -> Retrying:
    return Retrying(**{key: section[key] for key in _RETRYING if key in section})


def topic_of(value: object) -> str | None:
    name = value.removeprefix("topic:") if isinstance(value, str) else ""
    return name if value != name and is_topic(name) else None


def name_complaints(name: str) -> list[str]:
    """It becomes part of the names of topics and of a group."""
    return [] if _NAME.fullmatch(name) else ["has a name with other than A-Z a-z 0-9 . _ -"]


def to_complaints(section: Mapping[str, Any]) -> list[str]:
    if not isinstance(section["to"], str):
        return [f"to = {section['to']!r} is no text in quotes"]
    try:
        url = expand(section["to"])
    except HeadwaterError as error:
        return [f"to: {error.with_hint}"]
    complaint = url_complaint(url, allow_private=section.get("allow_private") is True)
    # As it is written: what it names may be a secret.
    return [] if complaint is None else [f"to: {complaint}".replace(repr(url), repr(section["to"]))]


def where_complaints(where: object) -> list[str]:
    if not isinstance(where, list) or not all(isinstance(each, str) for each in where):
        return [f'where = {where!r} is no list of conditions, as in ["status=paid"]']
    try:
        Filter(where=tuple(where)).compiled(Decoder())
    except HeadwaterError as error:
        return [f"where: {error.with_hint}"]
    return []


def sending_complaints(section: Mapping[str, Any]) -> list[str]:
    said = []
    if "secret" in section:
        said += secret_complaints(section["secret"])
    if not isinstance(section.get("allow_private", False), bool):
        said.append(f"allow_private = {section['allow_private']!r} is neither true nor false")
    for setting, default in NUMBERS.items():
        value = section.get(setting, default)
        if not (is_whole(value, 1) if isinstance(default, int) else is_positive(value)):
            said.append(f"{setting} = {value!r} is no number above 0")
    return said + _header_complaints(section.get("headers", {}))


def _header_complaints(headers: object) -> list[str]:
    if not isinstance(headers, dict):
        return [f"headers = {headers!r} is no table of names and texts"]
    said = []
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or name.lower().startswith(_RESERVED):
            said.append(f"headers: {name!r} is no name for a header of your own")
            continue
        try:
            good = isinstance(value, str) and expand(value).isprintable() and value.isascii()
        except HeadwaterError as error:
            said.append(f"headers: {error.with_hint}")
            continue
        if not good:
            said.append(f"headers: the value of {name} is no plain text")
    return said
