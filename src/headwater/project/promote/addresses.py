"""The two addresses in headwater.toml: changed line by line, so that comments and order stay.

Pure. The lines that no longer count are kept as comments. What comes out is read again and compared: a
file that is written in a way that is not understood here is refused, not guessed at.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

from headwater.project.promote.errors import CannotPromote

_HEADER = re.compile(r"^\s*\[([^\[\]]+)\]")
_LOG_ONLY = ("data", "listen", "settings")
"""Settings of a log that the project runs itself."""


def moved(text: str, kafka: str, spark: str | None) -> str:
    """The file with these two addresses."""
    engine = "remote" if spark is not None and spark.startswith("sc://") else "master"
    wanted: dict[str, dict[str, str]] = {"log": {"bootstrap": kafka}}
    silenced: dict[str, tuple[str, ...]] = {"log": _LOG_ONLY}
    if spark is not None:
        wanted["spark"] = {engine: spark}
        silenced["spark"] = ("master", "remote")
    lines = text.splitlines()
    for section, values in wanted.items():
        lines = _rewritten(lines, section, values, silenced[section])
    result = "\n".join(lines) + "\n"
    _check(text, result, wanted, silenced)
    return result


def _rewritten(
    lines: list[str], section: str, values: dict[str, str], silenced: tuple[str, ...]
) -> list[str]:
    written, inside, seen, nested = [], False, False, False
    for line in lines:
        if (header := _HEADER.match(line)) is not None:
            inside = header[1].strip() == section
            nested = header[1].strip() in {f"{section}.{name}" for name in silenced}
            if inside:
                seen = True
                written.append(line)
                written += [f'{name} = "{value}"' for name, value in values.items()]
                continue
        name = line.partition("=")[0].strip().strip('"')
        counts = line.strip() and not line.lstrip().startswith("#")
        if counts and ((inside and name in (*silenced, *values)) or nested):
            written.append(f"# {line}")
        else:
            written.append(line)
    if not seen:
        added = [f"[{section}]", *(f'{name} = "{value}"' for name, value in values.items()), ""]
        written = [*added, *written]
    return written


def _check(
    before: str,
    after: str,
    wanted: dict[str, dict[str, str]],
    silenced: dict[str, tuple[str, ...]],
) -> None:
    """The file says what it said, but for the addresses."""
    expected: dict[str, Any] = tomllib.loads(before)
    for section, values in wanted.items():
        kept = {
            name: value
            for name, value in expected.get(section, {}).items()
            if name not in silenced[section]
        }
        expected[section] = {**kept, **values}
    try:
        same = tomllib.loads(after) == expected
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        said = "; ".join(
            f'[{section}] {name} = "{value}"'
            for section, values in wanted.items()
            for name, value in values.items()
        )
        raise CannotPromote(
            "headwater.toml is written in a way that cannot be changed line by line",
            hint=f"write [log] and [spark] with a setting on each line; in the end it must say: {said}",
        )
