"""The two addresses in headwater.toml: changed where they stand, so that comments and order stay (tomlkit).

Pure; called by `job`. Settings that no longer count are kept as comments. What comes out is read again and
compared: a file that comes out otherwise than it must is refused, not guessed at.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.items import Comment, Table, Whitespace

from headwater.project.promote.errors import CannotPromote

_LOG_ONLY = ("data", "listen", "settings")
"""Settings of a log that the project runs itself."""
_ENGINES = ("master", "remote")


def moved(text: str, kafka: str, spark: str | None) -> str:
    """The file with these two addresses."""
    wanted: dict[str, dict[str, str]] = {"log": {"bootstrap": kafka}}
    silenced: dict[str, tuple[str, ...]] = {"log": _LOG_ONLY}
    if spark is not None:
        wanted["spark"] = {"remote" if spark.startswith("sc://") else "master": spark}
        silenced["spark"] = _ENGINES
    document = tomlkit.parse(text)
    for section, values in wanted.items():
        _rewrite(document, section, values, silenced[section])
    result = tomlkit.dumps(document)
    _check(text, result, wanted, silenced)
    return result


def _rewrite(
    document: TOMLDocument, section: str, values: dict[str, str], silenced: tuple[str, ...]
) -> None:
    if section not in document:
        document.add(section, tomlkit.table())
    table = document[section]
    assert isinstance(table, dict)  # `file.load` has said so before
    if isinstance(table, Table) and not table.is_super_table():
        document[section] = _rewritten(table, section, values, silenced)
        return
    table.update(values)  # an inline table, or one in several places, has no room for comments
    for name in silenced:
        if name not in values:
            table.pop(name, None)


def _rewritten(
    table: Table, section: str, values: dict[str, str], silenced: tuple[str, ...]
) -> Table:
    """The new settings first, as what follows may be a comment upon the next section; then what was there,
    with what no longer counts as comments."""
    written = tomlkit.table()
    written.update(values)
    for key, item in table.value.body:
        if isinstance(item, Comment | Whitespace):
            written.add(item)
        elif key is None:
            continue  # where tomlkit has taken something out
        elif key.key in silenced or key.key in values:
            for line in _lines(section, key.key, item):
                written.add(tomlkit.comment(line) if line else tomlkit.nl())
        else:
            written.add(key, item)
    return written


def _lines(section: str, name: str, item: Any) -> list[str]:
    """A setting as it stood in the file; a comment without its mark."""
    alone = tomlkit.document()
    alone.add(name, item)
    lines = tomlkit.dumps(alone).strip().splitlines()
    if isinstance(item, Table):
        lines = [re.sub(rf"^\[{name}\b", f"[{section}.{name}", line) for line in lines]
        lines = [re.sub(r"^\s*#\s*", "", line) for line in lines]
    return lines


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
            "headwater.toml is written in a way that cannot be changed without losing something",
            hint=f"write [log] and [spark] with a setting on each line; in the end it must say: {said}",
        )
