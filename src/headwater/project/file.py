"""headwater.toml: what a project consists of, read and checked as a whole.

Called by `headwater up`, `status` and `doctor`. Every mistake in the file is told at once, each with
its line and what mends it; a file with a mistake starts nothing.

    [log]                           [spark]                     [capture.NAME]   see `capture.config`
    data = "data/log"               master = "local[*]"         from = "sqlite:shop.db"
    listen = "127.0.0.1:9092"       remote = "sc://…"           tables = ["orders"]
    bootstrap = "kafka:9092"        checkpoints = "data/…"      [views.NAME]
    [log.settings]                  [spark.conf]                to = "search:data/orders"
    [pipelines]                     [console]
    paths = ["pipelines"]           listen = "127.0.0.1:8765"
                                    read_only = false
    [edges…]   see `edges.config`   token = "${HEADWATER_CONSOLE_TOKEN}"
    [schemas…] see `edges.registry.config`
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater import format_version
from headwater.capture.config import from_mapping, in_project
from headwater.capture.setting_forms import as_texts
from headwater.errors import HeadwaterError, nearest
from headwater.local_path import local_path
from headwater.project import ports, roles, spark_section, tls
from headwater.project.mistakes import BadProject, Lines
from headwater.secrets import is_reference
from headwater.value_forms import are_texts, is_whole, text_complaint

FILE = "headwater.toml"
_COUNT_MOST = 2**63 - 1


@dataclass(frozen=True)
class Project:
    """A checked headwater.toml."""

    path: Path
    data: str = "data/log"
    listen: str = "127.0.0.1:9092"
    bootstrap: str | None = None
    """Of a log that somebody else runs; None: the project runs its own broker."""
    settings: Mapping[str, str] = field(default_factory=dict)
    master: str = "local[*]"
    remote: str | None = None
    checkpoints: str = "data/checkpoints"
    conf: Mapping[str, str] = field(default_factory=dict)
    pipelines: tuple[str, ...] = ()
    batch_records_max: int = 1_000_000
    """Of one batch of a query."""
    batch_bytes_max: int = 1 << 30
    captures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    views: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    console: Mapping[str, Any] | None = None
    """What is given of its settings; None: no console is wanted."""
    edges: Mapping[str, Any] | None = None
    """As written: `headwater.edges.config` reads and checks it. None: no edges are wanted."""
    schemas: Mapping[str, object] | None = None
    """The same, for `headwater.edges.registry.config`."""

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def address(self) -> str:
        """Where the log is, whoever runs it."""
        return self.bootstrap or self.listen


def load(path: Path) -> Project:
    """The project that a file describes. Raises BadProject with every mistake in it, NewerFormat."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise BadProject(f"there is no {path}", hint="make one: headwater init NAME") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BadProject(f"{path} cannot be read: {error}") from None
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadProject(f"{path} is not TOML: {error}", hint="correct that line") from None
    format_version.check(str(path), document.pop("format", None), format_version.PROJECT_FILE)
    reader = _Reader(path, text)
    project = reader.read(document)
    if reader.mistakes:
        raise BadProject("\n".join(reader.mistakes))
    return project


def _is_folder(value: object) -> str | None:
    if (wrong := text_complaint(value)) is not None:
        return wrong
    return None if local_path(str(value)) is not None else "is no folder of this machine"


def _are_addresses(value: object) -> str | None:
    good = isinstance(value, str) and all(
        ports.is_address(each.strip()) for each in value.split(",")
    )
    return None if good else 'is no HOST:PORT, or several with commas, as in "kafka-1:9092"'


def _are_texts(value: object) -> str | None:
    good = are_texts(value) and value
    return None if good else 'is no list of texts, as in ["pipelines"]'


def _are_settings(value: object) -> str | None:
    good = isinstance(value, dict) and all(isinstance(v, str | int | float) for v in value.values())
    return None if good else "is no table of names and values"


def _is_count(value: object) -> str | None:
    return None if is_whole(value, 1, _COUNT_MOST) else "is no number from 1 on"


def _is_choice(value: object) -> str | None:
    return None if isinstance(value, bool) else "is neither true nor false"


def _is_reference(value: object) -> str | None:
    said = 'is no "${NAME}" and no "file:/…": secrets come from the environment or files'
    return None if isinstance(value, str) and is_reference(value) else said


_Check = Callable[[object], str | None]
_PAGE: dict[str, _Check] = {"listen": ports.address_complaint, "tls": tls.complaint, **ports.CHECKS}
_SECTIONS: dict[str, dict[str, _Check]] = {
    "log": {
        "data": _is_folder,
        "listen": ports.address_complaint,
        "bootstrap": _are_addresses,
        "settings": _are_settings,
    },
    "spark": {
        "master": spark_section.complaint,
        "remote": spark_section.remote_complaint,
        "checkpoints": spark_section.storage_complaint,
        "conf": spark_section.conf_complaint,
    },
    "pipelines": {
        "paths": _are_texts,
        "batch_records_max": _is_count,
        "batch_bytes_max": _is_count,
    },
    "console": {**_PAGE, **roles.CHECKS, "read_only": _is_choice, "token": _is_reference},
}
_NAMED = ("capture", "views")
_SECRET = ("token", "tokens", "oidc", "settings", "conf")


class _Reader:
    """One look at one file."""

    def __init__(self, path: Path, text: str) -> None:
        self.mistakes: list[str] = []
        self._path, self._lines = path, Lines(text)

    def read(self, document: Mapping[str, Any]) -> Project:
        for name in document:
            known = (*_SECTIONS, *_NAMED, "edges", "schemas")
            if name not in known:
                self._say(name, None, f"there is no section [{name}]{nearest(name, known)}")
        found = {name: self._section(name, document.get(name, {})) for name in _SECTIONS}
        log, spark, runs = found["log"], found["spark"], found["pipelines"]
        if "bootstrap" in log and "data" in log:
            self._say(
                "log",
                "bootstrap",
                "`data` is for a log of this project, `bootstrap` for another: give one",
            )
        if "master" in spark and "remote" in spark:
            self._say("spark", "remote", "`master` and `remote` are two places to run: give one")
        captures = self._named("capture", in_project(document), "from", self._capture)
        views = self._named("views", document.get("views", {}), "to", self._view)
        return Project(
            path=self._path,
            data=log.get("data", Project.data),
            listen=log.get("listen", Project.listen),
            bootstrap=log.get("bootstrap"),
            settings=as_texts(log.get("settings", {})),
            master=spark.get("master", Project.master),
            remote=spark.get("remote"),
            checkpoints=spark.get("checkpoints", Project.checkpoints),
            conf=as_texts(spark.get("conf", {})),
            pipelines=tuple(runs.get("paths", self._default_pipelines())),
            batch_records_max=runs.get("batch_records_max", Project.batch_records_max),
            batch_bytes_max=runs.get("batch_bytes_max", Project.batch_bytes_max),
            captures=captures,
            views=views,
            console=found["console"] if "console" in document else None,
            edges=self._raw("edges", document.get("edges")),
            schemas=self._raw("schemas", document.get("schemas")),
        )

    def _raw(self, name: str, found: object) -> dict[str, object] | None:
        """A section that its own package checks."""
        if found is not None and not isinstance(found, dict):
            self._say(name, None, f"[{name}] is a section with lines of its own, not a value")
        return found if isinstance(found, dict) else None

    def _default_pipelines(self) -> list[str]:
        return ["pipelines"] if (self._path.parent / "pipelines").is_dir() else []

    def _section(self, name: str, section: object) -> dict[str, Any]:
        if not isinstance(section, dict):
            self._say(name, None, f"[{name}] is a section with lines of its own, not a value")
            return {}
        good = {}
        for key, value in section.items():
            check = _SECTIONS[name].get(key)
            if check is None:
                near = nearest(key, _SECTIONS[name])
                self._say(name, key, f"[{name}] has no setting {key!r}{near}")
            elif (complaint := check(value)) is not None:
                shown = "" if key in _SECRET else f" = {value!r}"
                self._say(name, key, f"{key}{shown} {complaint}")
            else:
                good[key] = value
        return good

    def _named(
        self, kind: str, sections: object, needed: str, check: Callable[[str, dict[str, Any]], None]
    ) -> dict[str, dict[str, Any]]:
        if not isinstance(sections, dict):
            self._say(kind, None, f"write [{kind}.NAME], with a name of your own")
            return {}
        for name, section in sections.items():
            if not isinstance(section, dict):
                self._say(kind, name, f"write [{kind}.NAME] with `{needed} = …` in it")
            elif needed not in section:
                self._say(f"{kind}.{name}", None, f"[{kind}.{name}] lacks `{needed} = …`")
            else:
                check(name, section)
        return {n: s for n, s in sections.items() if isinstance(s, dict)}

    def _capture(self, name: str, section: dict[str, Any]) -> None:
        try:
            from_mapping(name, section, "127.0.0.1:9092")
        except HeadwaterError as error:
            hint = f" ({error.hint})" if error.hint else ""
            self._say(f"capture.{name}", None, f"{error.sentence}{hint}")

    def _view(self, name: str, section: dict[str, Any]) -> None:
        for key in set(section) - {"to"}:
            said = f"[views.{name}] has no setting {key!r}{nearest(key, ['to'])}"
            self._say(f"views.{name}", key, said)
        complaint = text_complaint(section["to"])
        if complaint is None and ":" not in section["to"]:
            complaint = 'names no target, as in "sqlite:data/views.db"'
        if complaint is not None:
            self._say(f"views.{name}", "to", f"to = {section['to']!r} {complaint}")

    def _say(self, section: str, key: str | None, sentence: str) -> None:
        self.mistakes.append(f"{self._path}:{self._lines.number(section, key)}: {sentence}")
