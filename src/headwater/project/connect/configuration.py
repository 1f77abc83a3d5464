"""A connector's configuration, as Kafka Connect takes it: JSON for its REST interface, or .properties."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.errors import HeadwaterError

FILE_BYTES_MAX = 1024 * 1024


class NotUnderstood(HeadwaterError):
    """A file that is no connector's configuration, or of a connector that has no counterpart."""


@dataclass
class Configuration:
    """Its settings; each that is taken is remembered, so that the rest can be told."""

    name: str
    settings: Mapping[str, str]
    _seen: set[str] = field(default_factory=set)

    @property
    def kind(self) -> str:
        """The connector's class without its package: `PostgresConnector`."""
        return self.take("connector.class").rpartition(".")[2]

    def take(self, name: str, default: str = "") -> str:
        self._seen.add(name)
        return self.settings.get(name, default)

    def flag(self, name: str, default: bool) -> bool:
        return self.take(name, str(default)).strip().lower() == "true"

    def words(self, name: str) -> list[str]:
        return [word.strip() for word in self.take(name).split(",") if word.strip()]

    def ignore(self, *names: str) -> None:
        """They say nothing about what is captured or written."""
        self._seen.update(names)

    def left(self) -> list[str]:
        """Settings that nobody has taken."""
        return sorted(set(self.settings) - self._seen)


def read(text: str, name: str) -> Configuration:
    """`name`: of the connector, where the file has none."""
    found = _json(text) if text.lstrip().startswith(("{", "[")) else _properties(text)
    inner = found.get("config")
    if isinstance(inner, Mapping):
        name, found = str(found.get("name", name)), dict(inner)
    if not found.get("connector.class"):
        raise NotUnderstood(
            "this is no connector's configuration: it has no connector.class",
            hint="give the JSON that Kafka Connect was sent, or its .properties file",
        )
    settings = {str(key): "" if value is None else _text(value) for key, value in found.items()}
    return Configuration(settings.pop("name", name), settings)


def _json(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotUnderstood(
            f"this is no JSON: {error}", hint="give the file that Kafka Connect was sent"
        ) from None
    if not isinstance(found, dict):
        raise NotUnderstood("this is a list", hint="give the configuration of one connector")
    return found


def _properties(text: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for line in text.replace("\\\n", "").splitlines():
        if line.strip() and line.lstrip()[0] not in "#!" and "=" in line:
            key, _, value = line.partition("=")
            found[key.strip()] = value.strip()
    return found


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
