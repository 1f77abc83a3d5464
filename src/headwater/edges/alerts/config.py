"""[edges.alerts.NAME]: a rule on a topic, a view or a group, and who is told; read and checked.

[edges.alerts.late]                  to = …
on = "view:order_search"             "https://…"       signed like webhooks: secret, and its other settings
when = "lag > 1000"                  "mailto:a@b.c"    smtp = "smtp://HOST:25" (smtps://, smtp+starttls://),
to = "mailto:ops@shop.example"                         from; user, password = "${NAME}"
where = ["status=failed"]            "command:PROG X"  the notice as JSON on its standard input; timeout_s
grep = "refund"                      "topic:NAME"      the notice as a record
every_s = 5                          how often lag and silence are looked at
at_most_every_s = 60                 of `matches`: what comes in between is counted, and told with the next
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from headwater.browse.decoder import Decoder
from headwater.browse.filters import Filter
from headwater.edges.alerts.rules import ON, Aggregate, Matches, Rule, parse
from headwater.edges.alerts.rules import Field as FieldRule
from headwater.edges.hooks.config import secret_complaints, unknown_settings
from headwater.edges.webhooks import subscription
from headwater.edges.webhooks.retry import Retrying
from headwater.edges.webhooks.subscription import Posting, posting_of, retrying_of, topic_of
from headwater.errors import HeadwaterError
from headwater.project.ports import is_loopback
from headwater.secrets import expand
from headwater.value_forms import is_positive, text_complaint

EVERY_S, AT_MOST_EVERY_S, COMMAND_TIMEOUT_S = 5.0, 60.0, 30.0
SCHEMES = ("smtp", "smtps", "smtp+starttls")
_MAIL = ("smtp", "from", "user", "password")
_OWN = ("on", "when", "to", "where", "grep", "every_s", "at_most_every_s")
_KNOWN = (*_OWN, *_MAIL, *subscription.SENDING)
_ADDRESS = re.compile(r"[^@\s<>,;:\"]+@[A-Za-z0-9.-]+")


@dataclass(frozen=True)
class Mail:
    """`server`: smtp://HOST:PORT, smtps:// or smtp+starttls://."""

    server: str
    sender: str
    receivers: tuple[str, ...]
    user: str | None = None
    password: str | None = None
    timeout_s: float = subscription.TIMEOUT_S


@dataclass(frozen=True)
class Command:
    words: tuple[str, ...]
    timeout_s: float = COMMAND_TIMEOUT_S


@dataclass(frozen=True)
class ToTopic:
    topic: str


Receiver = Posting | Mail | Command | ToTopic


@dataclass(frozen=True)
class Alert:
    """A checked section. `kind` and `about`: view and its name, for example."""

    name: str
    kind: str
    about: str
    rule: Rule
    to: Receiver
    filter: Filter = field(default_factory=Filter)
    every_s: float = EVERY_S
    at_most_every_s: float = AT_MOST_EVERY_S
    retrying: Retrying = field(default_factory=Retrying)


def check(name: str, section: Mapping[str, Any]) -> list[str]:
    """A sentence for each mistake."""
    said = unknown_settings(section, _KNOWN)
    said += subscription.name_complaints(name)
    said += [f"lacks `{setting} = …`" for setting in ("on", "when", "to") if setting not in section]
    for setting in ("on", "when", "to", "grep", *_MAIL):
        if setting in section and (wrong := text_complaint(section[setting])) is not None:
            said.append(f"{setting} = {section[setting]!r} {wrong}")
    for setting in ("every_s", "at_most_every_s"):
        value = section.get(setting, 1)
        if not is_positive(value):
            said.append(f"{setting} = {value!r} is no number above 0")
    return said or [*_about_rule(section), *_about_receiver(section)]


def read(name: str, section: Mapping[str, Any]) -> Alert:
    """A section in which `check` found nothing."""
    kind, _, about = section["on"].partition(":")
    return Alert(
        name,
        kind,
        about,
        parse(section["when"]),
        _receiver(section),
        Filter(where=tuple(section.get("where", [])), grep=section.get("grep")),
        section.get("every_s", EVERY_S),
        section.get("at_most_every_s", AT_MOST_EVERY_S),
        retrying_of(section),
    )


def _receiver(section: Mapping[str, Any]) -> Receiver:
    scheme, _, rest = section["to"].partition(":")
    if scheme == "mailto":
        password = section.get("password")
        return Mail(
            expand(section["smtp"]),
            section["from"],
            tuple(each.strip() for each in rest.split(",")),
            None if section.get("user") is None else expand(section["user"]),
            None if password is None else expand(password),
            section.get("timeout_s", subscription.TIMEOUT_S),
        )
    if scheme == "command":
        return Command(tuple(shlex.split(rest)), section.get("timeout_s", COMMAND_TIMEOUT_S))
    if scheme == "topic":
        return ToTopic(rest)
    return posting_of(section, section["to"])


def _about_rule(section: Mapping[str, Any]) -> list[str]:
    found = re.fullmatch(r"(topic|view|group):(\S+)", section["on"])
    if found is None:
        return [f'on = {section["on"]!r} is no "topic:NAME", "view:NAME" or "group:NAME"']
    try:
        rule = parse(section["when"])
    except HeadwaterError as error:
        return [f"when: {error.with_hint}"]
    if found[1] not in ON[type(rule)]:
        fits = " or ".join(f"{each}:NAME" for each in ON[type(rule)])
        return [f"when = {section['when']!r} is about {fits}, not about a {found[1]}"]
    if not isinstance(rule, Matches | FieldRule | Aggregate):
        unused = [each for each in ("where", "grep") if each in section]
        return [f"{each} is of no use with this rule: it reads no records" for each in unused]
    said = subscription.where_complaints(section.get("where", []))
    try:
        Filter(grep=section.get("grep")).compiled(Decoder())
    except HeadwaterError as error:
        said.append(f"grep: {error.with_hint}")
    return said


def _about_receiver(section: Mapping[str, Any]) -> list[str]:
    scheme, _, rest = section["to"].partition(":")
    said = subscription.sending_complaints(section)
    if scheme in ("http", "https"):
        lacking = [] if "secret" in section else ["lacks `secret = …`, to sign what is sent"]
        return said + lacking + _of_mail(section) + subscription.to_complaints(section)
    said += [f"{each} is for to = https://…" for each in ("secret", "headers") if each in section]
    if scheme == "mailto":
        return said + _about_mail(section, rest)
    said += _of_mail(section)
    if scheme == "command":
        return said + _about_command(rest)
    if scheme == "topic":
        return said if topic_of(section["to"]) else [*said, f"to: {rest!r} is no name of a topic"]
    return [*said, f"to = {section['to']!r} is no https://…, mailto:…, command:… or topic:NAME"]


def _of_mail(section: Mapping[str, object]) -> list[str]:
    return [f'{each} is for to = "mailto:…"' for each in _MAIL if each in section]


def _about_mail(section: Mapping[str, Any], rest: str) -> list[str]:
    said = [f"lacks `{each} = …`, to send mail" for each in ("smtp", "from") if each not in section]
    wrong = [each for each in rest.split(",") if not _ADDRESS.fullmatch(each.strip())]
    said += [f"to: {each.strip()!r} is no address for mail" for each in wrong]
    if "from" in section and not _ADDRESS.fullmatch(section["from"]):
        said.append(f"from = {section['from']!r} is no address for mail")
    if "smtp" in section:
        try:
            parts = urlsplit(expand(section["smtp"]))
            good = parts.scheme in SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0
        except (ValueError, HeadwaterError):
            good = False
        if not good:
            said.append(f'smtp = {section["smtp"]!r} is no "smtp://HOST:PORT"')
    if ("user" in section) != ("password" in section):
        said.append("`user` and `password` belong together")
    elif "password" in section:
        if "smtp" in section and _is_open(section["smtp"]):
            said.append(
                "smtp:// would send the password in clear: write smtps:// or smtp+starttls://"
            )
        said += [
            each.replace("secret", "password", 1) for each in secret_complaints(section["password"])
        ]
    return said


def _is_open(server: str) -> bool:
    """Whether whoever listens on the way would learn a password."""
    try:
        parts = urlsplit(expand(server))
        return parts.scheme == "smtp" and not is_loopback(parts.hostname or "")
    except (ValueError, HeadwaterError):
        return False  # said already


def _about_command(rest: str) -> list[str]:
    try:
        words = shlex.split(rest)
    except ValueError as error:
        return [f"to: the command cannot be read: {error}"]
    return [] if words else ["to = 'command:' names no program"]
