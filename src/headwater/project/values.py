"""What the values of headwater.toml mean, as far as that can be said without starting anything.

Called by `doctor`. `file` has checked each value's form; here broker settings are read as the broker reads
them, targets must be of a known kind, folders must be able to be made, and no two parts may want one port.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headwater.capture.setting_forms import as_texts
from headwater.errors import HeadwaterError, nearest
from headwater.local_path import local_path
from headwater.project.file import Project
from headwater.secrets import shown

_ONE_FILE = ("sqlite", "duckdb")
"""Targets that are a file; the others are folders."""


@dataclass(frozen=True)
class Finding:
    """What one check came to."""

    name: str
    ok: bool
    sentence: str
    remedy: str | None = None


def examine(project: Project) -> Iterator[Finding]:
    """What is wrong; nothing where all is well."""
    yield from _broker_settings(project.settings)
    yield from _topic_configs(project)
    yield from _targets(project)
    yield from _folders(project)
    yield from _addresses(project)


def _broker_settings(given: Mapping[str, str]) -> Iterator[Finding]:
    from headwater.broker.settings import Settings

    try:
        Settings(given)
    except HeadwaterError as error:
        yield Finding("log settings", False, error.sentence, error.hint)
    except ValueError as error:
        yield Finding("log settings", False, str(error), "headwater settings lists them")


def _topic_configs(project: Project) -> Iterator[Finding]:
    """Of topics that captures make, where this project has the broker: another may know other configs."""
    from headwater.broker.settings.topic import TOPIC, check_topic_overrides

    for name, section in project.captures.items() if project.bootstrap is None else ():
        given = as_texts(section.get("topic_config", {}))
        unknown = [config for config in given if config not in TOPIC]
        wrong = (
            f"there is no config {unknown[0]!r} of topics{nearest(unknown[0], TOPIC)}"
            if unknown
            else check_topic_overrides(given)
        )
        if wrong is not None:
            yield Finding(f"capture {name}: topic_config", False, wrong, "correct it there")


def _targets(project: Project) -> Iterator[Finding]:
    import headwater.processing.request_reply  # noqa: F401 (it registers `replies:`)
    from headwater.views.targets import addresses, registry

    known = registry.schemes()
    for name, view in project.views.items():
        scheme = registry.scheme_of(str(view["to"]))
        if scheme not in known:
            said = f"{scheme!r} is no kind of target{nearest(scheme, known)}"
            yield Finding(f"view {name}", False, said, f"correct `to` in [views.{name}]")
        elif (wrong := addresses.complaint(str(view["to"]))) is not None:
            said = f"{shown(str(view['to']))!r} {wrong}"
            yield Finding(f"view {name}", False, said, f"correct `to` in [views.{name}]")


def _folders(project: Project) -> Iterator[Finding]:
    from headwater.views.targets.addresses import IN_FILES

    wanted = [("checkpoints", project.checkpoints, False)]
    if project.bootstrap is None:
        wanted.append(("data", project.data, False))
    for name, view in project.views.items():
        scheme, _, rest = str(view["to"]).partition(":")
        if scheme in IN_FILES and rest.strip():
            wanted.append((f"to of the view {name}", rest, scheme in _ONE_FILE))
    for name, place, is_file in wanted:
        path = local_path(place)
        if path is not None and (wrong := _unusable(Path(path), is_file=is_file)) is not None:
            yield Finding("folders", False, f"{name} = {place!r}: {wrong}", "give another place")


def _unusable(path: Path, *, is_file: bool) -> str | None:
    """Why nothing can be written at this place; None: it can, as far as one can see."""
    if path.exists():
        if path.is_dir() == is_file:
            return f"{path} is a {'folder, not a file' if is_file else 'file, not a folder'}"
        if not os.access(path, os.W_OK):
            return f"{path} cannot be written to"
    above = path.absolute().parent
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        return f"{above} is a file, not a folder"
    if not os.access(above, os.W_OK | os.X_OK):
        return f"{above} cannot be written to"
    return None


def _addresses(project: Project) -> Iterator[Finding]:
    wanted = {"console": project.console, "edges": project.edges, "schemas": project.schemas}
    taken = {} if project.bootstrap is not None else {_port(project.listen): "log"}
    for section, values in wanted.items():
        listen = (values or {}).get("listen")
        if not isinstance(listen, str):
            continue
        other = taken.setdefault(_port(listen), section)
        if other != section:
            said = f"[{section}] and [{other}] both listen on {listen}"
            yield Finding("addresses", False, said, f"give [{section}] another port")


def _port(listen: str) -> str:
    """Two hosts of one machine may differ in name alone; ports are plenty."""
    return listen.rpartition(":")[2]
