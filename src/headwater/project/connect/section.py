"""What a connector becomes: sections for headwater.toml, a pipeline where there is one, and what to know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import tomlkit

from headwater.project.connect.configuration import Configuration

Known = Mapping[str, str | tuple[str, tuple[str, ...]]]
"""By the name of a setting, or how it begins (`x.*`): what is said of it, empty where Connect alone needs it;
with a list of values of which nothing is to be said."""
_PLACE = re.compile(r"\$\{[^}]*\}")


@dataclass
class Outcome:
    """`notes`: each a sentence about what is different, or has to be done by hand."""

    sections: dict[str, dict[str, object]] = field(default_factory=dict)
    """As in `capture.shop`."""
    pipeline: str = ""
    notes: list[str] = field(default_factory=list)

    def toml(self) -> str:
        document = tomlkit.document()
        for name, settings in self.sections.items():
            kind, _, rest = name.partition(".")
            table = tomlkit.table()
            for key, value in settings.items():
                table.add(key, value)
            above = document.setdefault(kind, tomlkit.table(is_super_table=True))
            above.add(rest, table)
        return tomlkit.dumps(document)

    def as_json(self) -> dict[str, object]:
        return {"sections": self.sections, "pipeline": self.pipeline, "notes": self.notes}


def safe_name(name: str) -> str:
    """As a section may be called."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")[:60] or "imported"


def secret(configuration: Configuration, setting: str, outcome: Outcome, variable: str) -> str:
    """`${VARIABLE}` in place of a password: it is not copied into another file."""
    given = configuration.take(setting)
    if not given:
        return ""
    if places := _PLACE.findall(given):
        outcome.notes.append(
            f"{setting} came from Connect's config provider ({' '.join(places)}): set {variable} "
            f'in the environment, or write "file:/path" in its place.'
        )
    else:
        outcome.notes.append(
            f"{setting} is not copied: set {variable} in the environment, or use a file (docs/security.md)."
        )
    return f"${{{variable}}}"


def tell_the_rest(configuration: Configuration, outcome: Outcome, known: Known) -> None:
    """A sentence for what has no counterpart; those of which the same is to be said share it."""
    named: dict[str, list[str]] = {}
    for name in configuration.left():
        why, same = _found(name, known)
        if configuration.take(name).strip().lower() in same:
            continue
        if why is None:
            outcome.notes.append(f"{name} has no counterpart, and was left out.")
        elif why:
            named.setdefault(why, []).append(name)
    outcome.notes += [f"{', '.join(names)}: {why}" for why, names in named.items()]


def _found(name: str, known: Known) -> tuple[str | None, tuple[str, ...]]:
    """What is said of a setting, and with which values nothing is: what a view or a capture does anyway."""
    if name in known:
        found = known[name]
    else:
        patterns = [each for each in known if each.endswith("*") and name.startswith(each[:-1])]
        if not patterns:
            return None, ()
        found = known[max(patterns, key=len)]
    return (found, ()) if isinstance(found, str) else found
