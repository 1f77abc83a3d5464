"""[edges.hooks.NAME]: a receiver of webhooks, read and checked.

[edges.hooks.payments]                 style = "plain" and "token" also take:
topic = "payments"                     header = "x-signature"       where the signature is
style = "stripe"                       prefix = "sha256="           before it
secret = "${STRIPE_SECRET}"            algorithm = "sha256"         or sha1, sha512
key = "data.object.id"                 encoding = "hex"             or base64
tolerance_s = 300                      signed = "{timestamp}.{body}"
                                       timestamp_header, id_header, id_field
                                       keep = ["x-event"]           headers for the record
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.edges.hooks.presets import ADJUSTABLE, PRESETS
from headwater.edges.hooks.signatures import TOLERANCE_S, Style, signing_key
from headwater.errors import HeadwaterError, nearest
from headwater.secrets import Secrets, expand, is_reference
from headwater.value_forms import is_positive, is_text, is_topic

_TEXTS = ("topic", "style", "key")
_ADJUST = ("header", "prefix", "signed", "timestamp_header", "id_header", "id_field")
_CHOICES = {"algorithm": ("sha256", "sha1", "sha512"), "encoding": ("hex", "base64")}
_KNOWN = ("secret", "tolerance_s", *_TEXTS)
_ALL = (*_KNOWN, *_ADJUST, *_CHOICES, "keep")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110."""


@dataclass(frozen=True)
class Hook:
    """A checked section."""

    name: str
    topic: str
    style: Style
    secrets: Iterable[str]
    key: str | None = None
    """A field of the JSON body that becomes the record's key."""
    tolerance_s: float = TOLERANCE_S


def check(name: str, section: Mapping[str, Any]) -> list[str]:
    """A sentence for each mistake."""
    said = _unknown(section)
    for setting in ("topic", "style", "secret"):
        if setting not in section:
            said.append(f"lacks `{setting} = …`")
    for setting in (*_TEXTS, *_ADJUST):
        if setting in section and not _is_text(section[setting], setting):
            said.append(f"{setting} = {section[setting]!r} is no text in quotes")
    if _is_text(topic := section.get("topic", "x")) and not is_topic(topic):
        said.append(f"topic = {topic!r} is no name that a topic can have")
    for setting in ("header", "timestamp_header", "id_header"):
        if _is_text(given := section.get(setting, "x")) and not _HEADER.fullmatch(given):
            said.append(f"{setting} = {given!r} is no name of a header")
    style = section.get("style")
    if isinstance(style, str) and style not in PRESETS:
        said.append(f"style = {style!r} is unknown{nearest(style, PRESETS)}")
    for setting, choices in _CHOICES.items():
        if setting in section and section[setting] not in choices:
            said.append(f"{setting} = {section[setting]!r} is none of {', '.join(choices)}")
    said += _about_time(section)
    if "secret" in section:
        said += secret_complaints(section["secret"])
    keep = section.get("keep", [])
    if not isinstance(keep, list) or not all(_is_text(e) and _HEADER.fullmatch(e) for e in keep):
        said.append(f'keep = {keep!r} is no list of headers, as in ["x-event"]')
    return said


def read(name: str, section: Mapping[str, Any]) -> Hook:
    """A section in which `check` found nothing."""
    style = PRESETS[section["style"]]
    adjusted = {
        setting: section[setting]
        for setting in (*_ADJUST, *_CHOICES)
        if setting in section and not setting.endswith("header")
    }
    for setting in ("header", "timestamp_header", "id_header"):
        if setting in section:
            adjusted[setting] = section[setting].lower()
    if section["style"] == "token":
        adjusted.pop("algorithm", None)
    kept = tuple(dict.fromkeys((*style.kept, *(each.lower() for each in section.get("keep", [])))))
    return Hook(
        name,
        section["topic"],
        dataclasses.replace(style, **adjusted, kept=kept),
        secrets_of(section["secret"]),
        section.get("key"),
        section.get("tolerance_s", TOLERANCE_S),
    )


def secrets_of(value: str | list[str]) -> Secrets:
    """One, or several while one is being replaced."""
    return Secrets([value] if isinstance(value, str) else value)


def secret_complaints(value: object) -> list[str]:
    """For one secret, or several while one is being replaced."""
    given = value if isinstance(value, list) and value else [value]
    for each in given:
        if not isinstance(each, str) or not is_reference(each):
            return [
                'secret is no "${NAME}" and no "file:/…": secrets come from the environment or files'
            ]
        try:
            found = expand(each)
        except HeadwaterError as error:
            return [f"secret: {error.with_hint}"]
        if not signing_key(found):
            return ["secret: nothing stands behind whsec_; anybody could sign with that"]
    return []


def unknown_settings(section: Mapping[str, Any], known: Iterable[str]) -> list[str]:
    """A sentence for each setting that a section does not have."""
    return [
        f"has no setting {setting!r}{nearest(setting, known)}"
        for setting in section
        if setting not in known
    ]


def _unknown(section: Mapping[str, Any]) -> list[str]:
    said = []
    for setting in section:
        if setting not in _ALL:
            said.append(f"has no setting {setting!r}{nearest(setting, _ALL)}")
        elif setting not in (*_KNOWN, "keep") and section.get("style") not in ADJUSTABLE:
            said.append(f"{setting} is for style = 'plain' or 'token': this style has its own")
    return said


def _about_time(section: Mapping[str, Any]) -> list[str]:
    said = []
    tolerance = section.get("tolerance_s", TOLERANCE_S)
    if not is_positive(tolerance):
        said.append(f"tolerance_s = {tolerance!r} is no number of seconds")
    signed = section.get("signed", "{body}")
    if isinstance(signed, str):
        if "{body}" not in signed:
            said.append(f"signed = {signed!r} leaves out {{body}}: anything could be in it")
        if ("{timestamp}" in signed) != ("timestamp_header" in section):
            said.append("`timestamp_header` and {timestamp} in `signed` belong together")
        if "{id}" in signed and "id_header" not in section:
            said.append(
                "{id} in `signed` needs `id_header`: a body is read when it is known whose it is"
            )
    return said


def _is_text(value: object, setting: str = "") -> bool:
    """What is signed may have lines."""
    return bool(value) and isinstance(value, str) if setting == "signed" else is_text(value)
