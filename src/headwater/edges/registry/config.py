"""[schemas] of headwater.toml, read and checked. Called by `headwater schemas serve`, `up` and `doctor`.

[schemas]                              [schemas.tokens.NAME]   see `access`
listen = "127.0.0.1:8081"
tls = true                             # as [edges] has it
connections_per_address = 5000         # one more is closed at once; 0: no limit
topic = "_schemas"
registry = "https://…"                 # where others are to ask; see `schemas.address`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headwater.edges.registry import access
from headwater.errors import nearest
from headwater.project import tls
from headwater.project.file import Project
from headwater.project.mistakes import mistaken
from headwater.project.ports import (
    CONNECTIONS_PER_ADDRESS,
    address_complaint,
    connections_complaint,
)
from headwater.schemas.address import LISTEN as SCHEMAS_LISTEN
from headwater.schemas.records import TOPIC
from headwater.value_forms import is_topic, is_web_address, text_complaint

_SETTINGS = ("listen", "tls", "connections_per_address", "topic", "registry", "tokens")


@dataclass(frozen=True)
class RegistryConfig:
    """A checked section [schemas]."""

    listen: str = SCHEMAS_LISTEN
    tls: bool | Mapping[str, object] = False
    connections_per_address: int = CONNECTIONS_PER_ADDRESS
    topic: str = TOPIC
    tokens: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


def of_project(project: Project) -> RegistryConfig:
    """Raises BadProject with every mistake, each with its line."""
    found, mistakes = read(project.schemas or {})
    if mistakes:
        raise mistaken(project.path, mistakes)
    return found


def read(document: Mapping[str, object]) -> tuple[RegistryConfig, list[tuple[str, str]]]:
    """What it says, and what is wrong with it: (section, sentence) pairs."""
    mistakes: list[tuple[str, str]] = []
    words = RegistryConfig()
    for key, value in document.items():
        if key not in _SETTINGS:
            said = f"[schemas] has no setting {key!r}{nearest(key, _SETTINGS)}"
            mistakes.append(("schemas", said))
        elif key == "tokens":
            words = replace(words, tokens=_tokens(value, mistakes))
        elif (wrong := _complaint(key, value)) is not None:
            mistakes.append(("schemas", f"{key} = {value!r} {wrong}"))
        else:
            words = _with(words, key, value)
    return words, mistakes


def _with(config: RegistryConfig, key: str, value: object) -> RegistryConfig:
    """One setting, in which `_complaint` found nothing."""
    if key == "tls":
        return replace(config, tls=value if isinstance(value, Mapping) else bool(value))
    if isinstance(value, int):
        return replace(config, connections_per_address=value)
    if key == "topic":
        return replace(config, topic=str(value))
    if key == "registry":
        return config  # for those who ask, and not for who serves
    return replace(config, listen=str(value))


def _complaint(key: str, value: object) -> str | None:
    if key == "tls":
        return tls.complaint(value)
    if key == "connections_per_address":
        return connections_complaint(value)
    if not isinstance(value, str) or (wrong := text_complaint(value)) is not None:
        return wrong if isinstance(value, str) else "is no text in quotes"
    if key == "registry" and not is_web_address(value):
        return 'is no address, as in "http://127.0.0.1:8081"'
    if key == "topic" and not is_topic(value):
        return "is no name that a topic can have"
    return address_complaint(value) if key == "listen" else None


def _tokens(sections: object, mistakes: list[tuple[str, str]]) -> dict[str, Mapping[str, object]]:
    good: dict[str, Mapping[str, object]] = {}
    for name, section in sections.items() if isinstance(sections, Mapping) else [("NAME", None)]:
        where = f"schemas.tokens.{name}"
        if not isinstance(section, Mapping):
            mistakes.append(("schemas", f"write [{where}] with lines of its own"))
            continue
        wrong = access.check(name, section)
        mistakes += [(where, f"[{where}] {said}") for said in wrong]
        if not wrong:
            good[name] = section
    return good
