"""A capture's settings: `[capture.NAME]` of headwater.toml, or the words of the command line.

    [capture.shop]
    from = "postgresql://app:${SHOP_PASSWORD}@db/shop"   # ${…}: from the environment
    tables = ["customers", "orders"]                     # topics shop.customers, shop.orders

Settings that only one kind of source knows are in `options`; the source refuses what it does not know.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from headwater import format_version
from headwater.capture import setting_forms
from headwater.capture.change import Announcements
from headwater.capture.errors import Misconfigured
from headwater.capture.setting_forms import COMMON
from headwater.errors import nearest
from headwater.schemas.address import registry_of
from headwater.secrets import expand

FORMATS = ("json", "avro", "protobuf", "json-schema")
REGISTRY = "HEADWATER_REGISTRY"
"""In the environment: the address of a registry, where the file names none."""
Section: TypeAlias = Mapping[str, Any]
"""As TOML has it."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


@dataclass(frozen=True)
class CaptureConfig:
    """One capture."""

    name: str
    url: str
    tables: tuple[str, ...] = ()
    """Empty: all that the source has."""
    bootstrap: str = "127.0.0.1:9092"
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of librdkafka, for a secured broker."""
    format: str = "json"
    """Of the records of tables. All but json have their schemas in the registry; avro, where there is none,
    on the topic NAME.avro-schemas."""
    registry: str | None = None
    """The address of the registry that schemas are told to."""
    schema: bool = False
    """Each JSON record carries its schema, as Kafka Connect's JSON converter has it."""
    tombstones: bool = True
    transactions: bool = True
    """BEGIN and END of each source transaction on the topic NAME.transaction."""
    topic_config: Mapping[str, str] = field(default_factory=lambda: {"retention.ms": "-1"})
    partitions: int = -1
    """Of topics that are created; -1: the broker's default."""
    record_bytes_max: int = 64 << 20
    """A larger record becomes a dead letter in NAME.dead-letters; topics are altered to take others."""
    snapshot_rows_per_second: int = 0
    """What the first snapshot may ask of its database at most; 0: as much as it gives."""
    snapshot_max_lag_s: float = 0.0
    """The first snapshot waits while a replica of its database is further behind; 0: it does not look."""
    outbox: str | None = None
    """A table whose rows are events for the topics that they name."""
    traced: float = 0.0
    """The share of records that get a `traceparent` header, to be followed to the views; 0: none.
    Of those that are streamed: the rows of a snapshot are older than their way through the log."""
    options: Mapping[str, Any] = field(default_factory=dict)
    announced: Announcements = field(default_factory=Announcements, compare=False, repr=False)
    """Schemas that encoders have made, for the runner to put before the records that need them."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise Misconfigured(
                f"a capture cannot be called {self.name!r}",
                hint="use up to 60 letters, digits, - and _",
            )
        self._check_format()
        self._refuse(setting_forms.complaint({name: getattr(self, name) for name in COMMON}))
        known = setting_forms.OPTIONS.get(self.scheme)
        if known is not None:  # another scheme is refused where its source is looked for
            self._refuse_unknown(known)
            self._refuse(setting_forms.complaint(self.options, known))

    def _refuse(self, wrong: tuple[str, str] | None) -> None:
        if wrong is not None:
            raise Misconfigured(f"capture {self.name}: {wrong[0]}", hint=wrong[1])

    def _check_format(self) -> None:
        if self.format not in FORMATS:
            raise Misconfigured(
                f"capture {self.name}: format = {self.format!r} is not known"
                f"{nearest(str(self.format), FORMATS)}",
                hint=f"use one of {', '.join(FORMATS)}",
            )
        if self.format != "json" and self.schema:
            raise Misconfigured(
                f"capture {self.name}: `schema` is for JSON; with {self.format} they are in the registry",
                hint='leave `schema` out, or set format = "json"',
            )
        if self.format not in ("json", "avro") and self.registry is None:
            raise Misconfigured(
                f"capture {self.name}: format = {self.format!r} needs a registry",
                hint='write [schemas] into headwater.toml, or registry = "http://…" into the capture',
            )

    @property
    def scheme(self) -> str:
        return self.url.partition(":")[0].lower()

    @property
    def transaction_topic(self) -> str:
        return f"{self.name}.transaction"

    @property
    def schema_topic(self) -> str:
        return f"{self.name}.schema-changes"

    @property
    def avro_topic(self) -> str:
        return f"{self.name}.avro-schemas"

    def option(self, name: str, default: Any) -> Any:
        """A setting of this kind of source; its form was checked when the capture was made."""
        return self.options.get(name, default)

    def _refuse_unknown(self, known: Iterable[str]) -> None:
        """Raise for an option that nobody will look at."""
        words = sorted({*known, *COMMON})
        for name in sorted(set(self.options) - set(known)):
            raise Misconfigured(
                f"capture {self.name}: there is no setting {name!r} for {self.scheme}"
                f"{nearest(name, words)}",
                hint=f"use one of {', '.join(words)}",
            )


def from_mapping(
    name: str, section: Section, bootstrap: str, client: Mapping[str, str] | None = None
) -> CaptureConfig:
    """A capture from its section of the file."""
    given = dict(section)
    url = given.pop("from", None)
    if not isinstance(url, str) or ":" not in url:
        raise Misconfigured(
            f"capture {name}: `from` is missing or no address",
            hint='for example from = "postgresql://user@host/database"',
        )
    common = {key: given.pop(key) for key in COMMON if key in given}
    common.setdefault("registry", os.environ.get(REGISTRY) or None)
    wrong = setting_forms.complaint(common)
    if wrong is not None:
        raise Misconfigured(f"capture {name}: {wrong[0]}", hint=wrong[1])
    if "tables" in common:
        common["tables"] = tuple(common["tables"])
    if "topic_config" in common:
        common["topic_config"] = setting_forms.as_texts(common["topic_config"])
    return CaptureConfig(
        name=name,
        url=expand(url),
        bootstrap=bootstrap,
        client=client or {},
        options=given,
        **common,
    )


def from_file(
    path: Path, name: str, bootstrap: str, client: Mapping[str, str] | None = None
) -> CaptureConfig:
    """The capture of that name in a headwater.toml."""
    try:
        document = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise Misconfigured(
            f"there is no {path}", hint="write one, or name the database with --from"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise Misconfigured(f"{path} is not TOML: {error}", hint="correct it there") from None
    format_version.check(str(path), document.get("format"), format_version.PROJECT_FILE)
    sections = document.get("capture", {})
    if name not in sections:
        known = ", ".join(sorted(sections)) or "none"
        raise Misconfigured(f"{path} has no [capture.{name}]", hint=f"captures there: {known}")
    return from_mapping(name, _in_project(sections[name], document), bootstrap, client)


def in_project(document: Section) -> object:
    """All sections [capture.NAME] with what the rest of the file says of them, for `from_mapping`."""
    found = document.get("capture", {})
    if not isinstance(found, dict):
        return found
    return {
        name: _in_project(section, document) if isinstance(section, dict) else section
        for name, section in found.items()
    }


def _in_project(section: Section, document: Section) -> Section:
    ratio = _table(_table(document.get("edges")).get("tracing")).get("ratio")
    said: dict[str, object] = {} if ratio is None else {"traced": ratio}
    if "schemas" in document and REGISTRY not in os.environ:
        said["registry"] = registry_of(_table(document["schemas"]))
    return {**said, **section}


def _table(value: object) -> Section:
    """What else it is, its own reader complains about."""
    return value if isinstance(value, dict) else {}
