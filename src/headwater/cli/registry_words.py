"""Words that commands which ask a registry share: where it is, a schema from a file, a schema for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headwater.cli.admin import PROJECT_FILE
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.client.log import Log
    from headwater.client.publisher import Draft
    from headwater.schemas.client import RegistryClient
    from headwater.schemas.model import Schema

Encode = Callable[[int, "Draft"], "Draft"]
"""From the number of a line and its record to the record as it is stored."""
DEFAULT_REGISTRY = "http://127.0.0.1:8081"
_SUFFIXES = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}


def registry_option() -> str:
    found: str = typer.Option(
        DEFAULT_REGISTRY,
        "--registry",
        metavar="URL",
        envvar="HEADWATER_REGISTRY",
        callback=_of_the_project,
        help="Address of the registry, with NAME:SECRET@ before the host where it has tokens. In a "
        "project's folder, its own.",
    )
    return found


def _of_the_project(context: typer.Context, value: str) -> str:
    """Where nobody named one and headwater.toml is here, its registry is meant."""
    source = context.get_parameter_source("registry")
    if source is None or source.name != "DEFAULT":
        return value
    return of_the_project() or value


def of_the_project(*, is_others: bool = False) -> str | None:
    """The registry of the headwater.toml in this folder; `is_others`: only one that it does not serve."""
    if not Path(PROJECT_FILE).is_file():
        return None
    from headwater.project.file import load
    from headwater.schemas.address import is_served, registry_of

    try:
        section = load(Path(PROJECT_FILE)).schemas
    except HeadwaterError:
        return None  # `headwater doctor` says what is wrong with the file
    if section is None or (is_others and is_served(section)):
        return None
    return registry_of(section)


def settle_registry(*, is_others: bool = False) -> None:
    """Let this process and those that it starts ask the project's registry, where nobody named another.
    `is_others`: for who can read `_schemas` himself, unless the registry is somebody else's."""
    if os.environ.get("HEADWATER_REGISTRY"):
        return
    if (found := of_the_project(is_others=is_others)) is not None:
        os.environ["HEADWATER_REGISTRY"] = found


def ca_option() -> Path | None:
    found: Path | None = typer.Option(
        None, "--ca", metavar="FILE", help="Authorities (PEM) for https, instead of the system's."
    )
    return found


@contextmanager
def asked(registry: str, ca: Path | None) -> Iterator[RegistryClient]:
    from headwater.schemas.client import RegistryClient

    with RegistryClient(registry, None if ca is None else str(ca)) as client:
        yield client


def subject_argument() -> str:
    found: str = typer.Argument(..., metavar="SUBJECT", help="As in orders-value.")
    return found


def file_argument() -> Path:
    found: Path = typer.Argument(
        ..., metavar="FILE", help="The schema: .avsc, .proto or .json; - is standard input."
    )
    return found


def kind_option() -> str | None:
    found: str | None = typer.Option(
        None,
        "--type",
        metavar="TYPE",
        help="AVRO, PROTOBUF or JSON; by the file's name if left out.",
    )
    return found


def references_option() -> list[str]:
    found: list[str] = typer.Option(
        [], "--reference", metavar="NAME=SUBJECT:VERSION", help="What the schema refers to."
    )
    return found


def read(file: Path, kind: str | None, references: list[str]) -> Schema:
    from headwater.schemas.model import Reference, Schema

    text = sys.stdin.read() if str(file) == "-" else _text(file)
    named = (kind or _SUFFIXES.get(file.suffix, "AVRO")).upper()
    found = []
    for each in references:
        name, equals, place = each.rpartition("=")
        subject, colon, version = place.rpartition(":")
        if not equals or not colon or not version.lstrip("-").isdigit():
            raise typer.BadParameter(f"{each!r} is not NAME=SUBJECT:VERSION")
        found.append(Reference(name, subject, int(version)))
    return Schema(text, named, tuple(found))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise HeadwaterError(f"{file} cannot be read: {error}") from None


def by_schema_option() -> bool:
    found: bool = typer.Option(
        False,
        "--by-schema",
        help="Values are JSON, and stored as the registry's latest schema of TOPIC-value says: Avro, "
        "Protobuf or JSON. Keys too, where there is a TOPIC-key.",
    )
    return found


def as_it_is(_number: int, draft: Draft) -> Draft:
    return draft


def encoder(log: Log, topic: str) -> Encode:
    """JSON to what the topic's schemas say. Raises BadLine."""
    from headwater.cli.lines import BadLine
    from headwater.schemas.lookup import lookup_beside
    from headwater.schemas.values.codecs import Codecs

    settle_registry()
    codecs = Codecs(lookup_beside(log))
    has_key = codecs.lookup.latest(f"{topic}-key") is not None

    def encode(number: int, draft: Draft) -> Draft:
        try:
            key, value = draft.key, draft.value
            if has_key and key is not None:
                key = codecs.encode_text(f"{topic}-key", key)
            if value is not None:
                value = codecs.encode_text(f"{topic}-value", value)
            return replace(draft, key=key, value=value)
        except HeadwaterError as error:
            raise BadLine(f"line {number}: {error.sentence}", hint=error.hint) from None

    return encode
