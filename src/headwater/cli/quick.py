"""The quick way into `headwater broker`: words to a running broker without typer.

Called by `main` before anything else. typer and the pydantic behind it would cost the broker's
process about 130 ms at start and 14 MB for as long as it runs. `understand` therefore reads
the plain forms (`--name value`, `--name=value`) itself and answers None to everything else
(help, a mistake), which then goes through typer. typer stays the authority: its command ends in
the same `start`, and a test gives both the same words.

Also here: where a broker works: folder, address, durability, from the command's words or else its settings.

A word on the command line wins; then Kafka's names in the settings
(`log.dirs`, `listeners`), so that a `server.properties` can be carried over as it is; then the
default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from headwater.cli.properties import parse_assignments, read_settings, with_secrets

DURABILITIES = ("disk", "os")
LOG_LEVELS = ("debug", "info", "warning", "error")


class BrokerWords(NamedTuple):
    """What the words after `headwater broker` said, not yet acted on."""

    data: str | None = None
    listen: str | None = None
    advertise: str | None = None
    durability: str | None = None
    assignments: tuple[str, ...] = ()
    config: str | None = None
    log_level: str = "info"
    insecure: bool = False


_OPTIONS = {
    "--data": "data",
    "--listen": "listen",
    "--advertise": "advertise",
    "--durability": "durability",
    "--set": "assignments",
    "--config": "config",
    "--log-level": "log_level",
}


def understand(words: list[str]) -> BrokerWords | None:
    """The words' meaning, or None where there is anything to explain to the user."""
    given: dict[str, str] = {}
    assignments: list[str] = []
    insecure = False
    rest = iter(words)
    for word in rest:
        if word == "--insecure":
            insecure = True
            continue
        option, equals, value = word.partition("=")
        if option not in _OPTIONS:
            return None
        if not equals:
            value = next(rest, "")
        if not value or (not equals and value.startswith("-")):
            return None
        if option == "--set":
            assignments.append(value)
        else:
            given[_OPTIONS[option]] = value
    meant = BrokerWords(**given, assignments=tuple(assignments), insecure=insecure)
    return meant if complaint(meant) is None else None


def complaint(meant: BrokerWords) -> tuple[str, str] | None:
    """The first thing wrong with the values, as (option, sentence)."""
    for option, address in (("--listen", meant.listen), ("--advertise", meant.advertise)):
        if address is not None and (sentence := _address_complaint(address)):
            return option, sentence
    if meant.durability is not None and meant.durability not in DURABILITIES:
        return "--durability", f"{meant.durability!r} is not one of disk, os"
    if meant.log_level not in LOG_LEVELS:
        return "--log-level", f"{meant.log_level!r} is not one of {', '.join(LOG_LEVELS)}"
    try:
        parse_assignments(meant.assignments)
    except ValueError as error:
        return "--set", f"{error}, for example --set num.partitions=2"
    return None


def _address_complaint(address: str) -> str | None:
    """HOST:PORT or [IPv6]:PORT; a host is required, so that nobody listens to all by accident."""
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        return f"{address!r} is not HOST:PORT, for example 127.0.0.1:9092"
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        return f"{address!r} needs brackets round its IPv6 address, as in [::1]:9092"
    return None


def start(meant: BrokerWords) -> int:
    """Read the settings and run the broker until it is told to stop; returns the exit code."""
    settings = read_settings(Path(meant.config)) if meant.config is not None else {}
    settings.update(with_secrets(parse_assignments(meant.assignments)))
    if meant.insecure:
        settings["headwater.insecure"] = "true"
    where = places(
        settings,
        data=meant.data,
        listen=meant.listen,
        advertise=meant.advertise,
        durability=meant.durability,
    )

    from headwater.broker.main import run

    return run(**where._asdict(), settings=settings, log_level=meant.log_level)


DATA = "data/log"
LISTEN = "127.0.0.1:9092"
DURABILITY = "disk"


class Places(NamedTuple):
    data: Path
    listen: str | None
    """None: the broker reads `listeners` itself."""
    advertise: str | None
    durability: str


def places(
    settings: Mapping[str, str],
    *,
    data: str | None = None,
    listen: str | None = None,
    advertise: str | None = None,
    durability: str | None = None,
) -> Places:
    """The four, each from the strongest voice that says something about it."""
    return Places(
        data=Path(data or settings.get("log.dirs") or settings.get("log.dir") or DATA),
        listen=listen if listen or settings.get("listeners", "").strip() else LISTEN,
        advertise=advertise,
        durability=durability or settings.get("durability") or DURABILITY,
    )
