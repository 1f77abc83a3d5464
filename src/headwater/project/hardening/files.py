"""Lines of the hardening list that are about secrets and files: what is written where, and who reads it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from headwater.local_path import local_path
from headwater.project.file import Project
from headwater.project.hardening.findings import failed, fine
from headwater.project.values import Finding
from headwater.secrets import files_of, is_reference, is_sensitive, names_one, shown

_NO_SECRETS = ("url", "location", "seconds", "minutes", "lifetime", "claim")
"""How names end that have `token` or `secret` in them and hold none."""


def inline(project: Project) -> Finding:
    name = "secrets: not in the file"
    found = [where for where, text in _texts(project) if _is_written(where[-1], text)]
    if found:
        where = ".".join(found[0])
        remedy = f'put it into the environment or a file: "${{NAME}}" or "${{file:/…}}" for {where}'
        return failed(name, f"{project.path.name} has a secret written in it: {where}", remedy)
    return fine(name, "headwater.toml names secrets, and has none")


def _is_written(name: str, text: str) -> bool:
    if shown(text) != text:
        return True
    is_secret = is_sensitive(name) and not name.lower().endswith(_NO_SECRETS)
    return is_secret and not is_reference(text) and not names_one(text)


def modes(project: Project) -> Finding:
    name = "secrets: file modes"
    files = {Path(each) for _, text in _texts(project) for each in files_of(text)}
    for path in sorted(each for each in files if each.exists()):
        if path.stat().st_mode & 0o007:
            return failed(name, f"everybody may read {path}", f"chmod 600 {path}")
    if project.path.stat().st_mode & 0o022:
        remedy = f"chmod 644 {project.path}"
        return failed(name, f"others may change {project.path.name}, and so what runs", remedy)
    return fine(name, "nobody else reads secrets or changes headwater.toml")


def data(project: Project) -> Finding:
    name = "data: file modes"
    checkpoints = local_path(project.checkpoints)
    if checkpoints is not None and project.master.startswith("local"):
        if checkpoints.exists() and checkpoints.stat().st_mode & 0o007:
            said = f"everybody may look into {checkpoints}, where rows of tables are"
            return failed(name, said, f"chmod o= {checkpoints}")
    if project.bootstrap is not None:
        return fine(name, "the log's own business")
    if project.settings.get("headwater.umask", "077")[-1] != "7":
        remedy = 'in [log.settings]: take "headwater.umask" out, or set it to "027"'
        return failed(name, "everybody on this machine may read new files of the log", remedy)
    data = Path(project.data)
    if data.exists() and data.stat().st_mode & 0o007:
        return failed(name, f"everybody may look into {data}", f"chmod -R o= {data}")
    return fine(name, "only its user reads the log's files")


def sealing(project: Project) -> Finding:
    name = "data: master key"
    data = Path(project.data)
    if (data / "headwater.keys-0").exists():
        remedy = "headwater keys move"
        return failed(name, "keys of personal data lie open in the topic headwater.keys", remedy)
    if project.bootstrap is None and not (data / "__headwater_keys-0").exists():
        return fine(name, "no personal data is sealed here")
    try:
        from headwater.events import master_key  # needs what the extra brings
    except ModuleNotFoundError:
        said = "whether there is one cannot be seen without the packages of event sourcing"
        return failed(name, said, "pip install 'headwater[events]'")
    if master_key.configured() is None:
        remedy = f"set {master_key.VARIABLE} to file:/… with 64 hexadecimal digits"
        return failed(name, "the keys of personal data have no master key here", remedy)
    path = master_key.default_path()
    if path.exists() and path.stat().st_mode & 0o077:
        return failed(name, f"others may read {path}", f"chmod 600 {path}")
    return fine(name, "there is one, outside of the log; keep a copy elsewhere")


def _texts(project: Project) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every text of headwater.toml, with where it stands."""
    yield from _within((), tomllib.loads(project.path.read_text(encoding="utf-8")))


def _within(where: tuple[str, ...], value: object) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _within((*where, str(name)), each)
    elif isinstance(value, list):
        for each in value:
            yield from _within(where, each)
    elif isinstance(value, str) and where:
        yield where, value
