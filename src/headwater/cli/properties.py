"""Settings from words and files: what `--set` and `--config` of `headwater broker` accept.

Called by the `broker` command. The file format is Kafka's own (a Java properties file), so that
a `server.properties` can be carried over:

    # a comment, also with !
    num.partitions=4
    log.retention.ms = 604800000
    group.initial.rebalance.delay.ms: 0
    super.users = User:ann;\
                  User:bob

Names are not judged here: the broker knows them, and suggests the nearest to a wrong one.

The settings with which a command itself speaks to the log, where no client library is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from headwater.errors import HeadwaterError
from headwater.secrets import expand, is_sensitive


class SettingsFileError(HeadwaterError):
    """The file given with --config cannot be used."""


def read_settings(path: Path) -> dict[str, str]:
    """The settings in a properties file; a name given twice keeps its last value, as in Kafka."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SettingsFileError(
            f"cannot read the settings file {path}: {reason}",
            hint="give --config the path of a file with name=value lines",
        ) from None
    except UnicodeDecodeError:
        raise SettingsFileError(
            f"the settings file {path} is not UTF-8 text",
            hint="give --config the path of a file with name=value lines",
        ) from None
    settings = {}
    for number, line in _logical_lines(text):
        name, value = _split(line)
        if not name or value is None:
            raise SettingsFileError(
                f"line {number} of {path} is not a setting: {line!r}",
                hint="write it as name=value, or put # in front of it",
            )
        settings[name] = value
    return with_secrets(settings)


def with_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """Passwords and the like may be named, as in `${NAME}`, instead of written down."""
    return {n: expand(value) if is_sensitive(n) else value for n, value in settings.items()}


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """`name=value` words to settings; raises ValueError with a sentence for a word that is not."""
    settings = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{assignment!r} is not of the form name=value")
        settings[name.strip()] = value.strip()
    return settings


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, continued ones joined, each with the number it began on."""
    parts: list[str] = []
    begin = 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not parts:
            if not line or line[0] in "#!":
                continue
            begin = number
        if raw.endswith("\\"):  # with a blank behind it, it is a part of the value
            parts.append(line[:-1])
            continue
        yield begin, "".join([*parts, line])
        parts = []
    if parts:
        yield begin, "".join(parts)


def _split(line: str) -> tuple[str, str | None]:
    places = [place for place in (line.find("="), line.find(":")) if place >= 0]
    if not places:
        return line, None
    return line[: min(places)].strip(), line[min(places) + 1 :].strip()


TIMEOUT_MS = 10_000


def client_config() -> dict[str, str]:
    """How to reach a secured broker: librdkafka's settings in the file of HEADWATER_CLIENT_CONFIG."""
    path = os.environ.get("HEADWATER_CLIENT_CONFIG")
    return read_settings(Path(path)) if path else {}


def client_settings(bootstrap: str) -> dict[str, str]:
    """For `headwater.client.cluster.Cluster`; a broker that is away is waited for briefly."""
    from headwater.client.options import Options

    named = {
        "default.api.timeout.ms": str(TIMEOUT_MS),
        **client_config(),
        "bootstrap.servers": bootstrap,
        "client.id": "headwater",
    }
    return Options({f"kafka.{name}": value for name, value in named.items()}).client_settings()
