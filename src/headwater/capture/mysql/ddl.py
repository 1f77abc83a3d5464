"""What a statement in the binary log does to tables; pure, called by `assembly`.

No full parser: with `binlog_row_metadata=FULL` every row event is preceded by its columns, so it is
enough to know which tables a statement concerns, and what for.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from headwater.capture.change import Record
from headwater.capture.envelope import dumps, quote

_WORDS = r"'(?:[^'\\]|''|\\.)*'|`(?:[^`]|``)*`|\"(?:[^\"\\]|\"\"|\\.)*\""
_QUOTED = re.compile(_WORDS, re.DOTALL)
_COMMENT = re.compile(rf"({_WORDS})|/\*(?!M?!).*?\*/|--(?=\s|$)[^\n]*|#[^\n]*", re.DOTALL)
_CONDITIONAL = re.compile(r"/\*M?!\d*(.*?)\*/", re.DOTALL)
_IDENTIFIER = r"(?:`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[\w$\u0080-\uffff]+)"
_NAME = re.compile(rf"\s*({_IDENTIFIER})(?:\s*\.\s*({_IDENTIFIER}))?", re.IGNORECASE)
_EXISTS = r"(?:\s+IF\s+(?:NOT\s+)?EXISTS)?"

_CHANGES = (
    ("CREATE", rf"CREATE\s+(?:OR\s+REPLACE\s+)?TABLE{_EXISTS}(?=[\s`\"])"),
    ("ALTER", rf"ALTER\s+(?:ONLINE\s+)?(?:IGNORE\s+)?TABLE{_EXISTS}(?=[\s`\"])"),
    ("TRUNCATE", r"TRUNCATE(?:\s+TABLE)?(?=[\s`\"])"),
    ("DROP", rf"DROP\s+TABLES?{_EXISTS}(?=[\s`\"])"),
    ("RENAME", rf"RENAME\s+TABLES?{_EXISTS}(?=[\s`\"])"),
    ("DROP DATABASE", rf"DROP\s+(?:DATABASE|SCHEMA){_EXISTS}(?=[\s`\"])"),
    (
        "INDEX",
        rf"(?:CREATE|DROP)\s+(?:OR\s+REPLACE\s+)?(?:UNIQUE\s+|FULLTEXT\s+|SPATIAL\s+)?INDEX{_EXISTS}",
    ),
)
_PATTERNS = tuple((kind, re.compile(rf"\s*{text}", re.IGNORECASE)) for kind, text in _CHANGES)
_DATA = re.compile(r"\s*(?:INSERT|UPDATE|DELETE|REPLACE|LOAD|WITH)\b", re.IGNORECASE)
_CREATES = re.compile(r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?TABLE\b", re.IGNORECASE)
_SELECT = re.compile(r"\bSELECT\b", re.IGNORECASE)
_SETTINGS = re.compile(r"\s*SET\s+STATEMENT\b.*?\bFOR\b", re.IGNORECASE | re.DOTALL)
_RENAMED = re.compile(
    r"\bRENAME\b(?!\s*(?:COLUMN|INDEX|KEY)\b)(?:\s*(?:TO\b|AS\b|=))?", re.IGNORECASE
)
_REPLACES = re.compile(r"\s*CREATE\s+OR\s+REPLACE\b", re.IGNORECASE)
_MOVES_ROWS = re.compile(
    r"\b(?:DROP|TRUNCATE|EXCHANGE|CONVERT)\s+PARTITION\b|\bCONVERT\s+TABLE\b|"
    r"\bIMPORT\s+(?:PARTITION\b.*)?TABLESPACE\b",
    re.IGNORECASE | re.DOTALL,
)
_DISCARDS = re.compile(r"\s*DISCARD\s+TABLESPACE\b", re.IGNORECASE)
_LEAVES_OUT = re.compile(r"\s*ALTER\s+(?:ONLINE\s+)?IGNORE\b", re.IGNORECASE)
"""MariaDB drops the rows that do not fit, and logs none of that."""
_OTHER_TABLE = re.compile(r"\b(?:WITH|TO|CONVERT)\s+TABLE(?=[\s`\"])", re.IGNORECASE)


class Change(NamedTuple):
    """What is done, and to which tables (database, table)."""

    kind: str
    tables: tuple[tuple[str, str], ...]
    moves_rows: bool = False
    """Rows come or go without row events: with a partition, with a file."""
    replaces: bool = False
    """What was under the name is gone: a table takes the place of another, or its file was discarded."""

    def folded(self) -> Change:
        """As a server names its tables that knows small letters only (lower_case_table_names = 1)."""
        return self._replace(tables=tuple((d.lower(), t.lower()) for d, t in self.tables))

    @property
    def emptied(self) -> tuple[tuple[str, str], ...]:
        """Tables that have no rows under their name any more, or others."""
        if self.kind in ("TRUNCATE", "DROP") or self.replaces:
            return self.tables
        if self.kind in ("RENAME", "ALTER") and not self.moves_rows and self.tables[1:]:
            return tuple(each for each in self.tables[::2] if each not in self.arrived)
        return ()

    @property
    def arrived(self) -> tuple[tuple[str, str], ...]:
        """Tables with rows that came there without row events: they had another name, or a partition did."""
        if self.moves_rows:
            return self.tables
        return self.tables[1::2] if self.kind in ("RENAME", "ALTER") else ()


def classify(statement: str, database: str) -> Change | None:
    """The change to tables; None for anything else (users, views, routines, indexes…)."""
    text = _plain(statement)
    for kind, pattern in _PATTERNS:
        found = pattern.match(text)
        if found is None:
            continue
        if kind == "INDEX":
            return None
        if kind == "DROP DATABASE":
            name = _NAME.match(text, found.end())
            return Change(kind, ((_bare(name[1]), ""),)) if name else None
        return _tables(kind, text, found.end(), database)
    return None


class Wanted(Protocol):
    """The tables that are captured."""

    database: str
    folds_names: bool

    def names(self) -> list[str]: ...
    def wants(self, database: str, table: str) -> bool: ...


def concerned(
    change: Change, tables: Wanted, reads_moved_rows: bool
) -> tuple[list[str], list[str], list[str]]:
    """Captured tables that it is about, those of them that have no rows any more, and those with rows that
    have to be read."""
    change = change.folded() if tables.folds_names else change
    if change.kind == "DROP DATABASE":
        names = tables.names() if change.tables[0][0] == tables.database else []
        return names, names, []
    names = [name for database, name in change.tables if tables.wants(database, name)]
    names = list(dict.fromkeys(names))
    gone = [name for name in names if (tables.database, name) in change.emptied]
    told_only = change.moves_rows and not reads_moved_rows
    arrived = [name for name in names if (tables.database, name) in change.arrived]
    return names, gone, [] if told_only else arrived


def record(
    topic: str, table: tuple[str, str], change: Change, statement: str, source: str, now_ms: int
) -> Record:
    """The statement on the schema topic; `table`: its name, and its own topic."""
    value = (
        f'{{"table":{quote(table[0])},"topic":{quote(table[1])},'
        f'"change":{quote(change.kind)},"columns":null,"key":null,"changes":null,'
        f'"ddl":{quote(statement)},"moves_rows":{"true" if change.moves_rows else "false"},'
        f'"source":{source},"ts_ms":{now_ms}}}'
    )
    return (topic, dumps({"table": table[0]}).encode(), value.encode())


def changes_data(statement: str) -> bool:
    """Whether it is a change of rows, logged as a statement instead of as rows.

    CREATE TABLE … SELECT is logged as rows without its SELECT, so one that still has it is not.
    """
    text = _plain(statement)
    if _DATA.match(text) is not None:
        return True
    return _CREATES.match(text) is not None and _SELECT.search(_QUOTED.sub("", text)) is not None


def mentions(statement: str, name: str) -> bool:
    return re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", statement, re.IGNORECASE) is not None


def _plain(statement: str) -> str:
    text = _COMMENT.sub(lambda found: found[1] or " ", statement)
    text = _CONDITIONAL.sub(r"\1", text)
    settings = _SETTINGS.match(_masked(text))  # MariaDB: SET STATEMENT … FOR the statement itself
    return text if settings is None else text[settings.end() :]


def _masked(text: str) -> str:
    """The same with nothing but the marks left of what is quoted; each word is where it was."""
    return _QUOTED.sub(lambda found: found[0][0] + "_" * (len(found[0]) - 2) + found[0][-1], text)


def _bare(name: str) -> str:
    if name[0] in '`"':
        return name[1:-1].replace(name[0] * 2, name[0])
    return name


def _qualified(found: re.Match[str], database: str) -> tuple[str, str]:
    if found[2] is None:
        return database, _bare(found[1])
    return _bare(found[1]), _bare(found[2])


def _tables(kind: str, text: str, at: int, database: str) -> Change | None:
    tables = []
    is_replacing = _REPLACES.match(text) is not None
    while (found := _NAME.match(text, at)) is not None:
        tables.append(_qualified(found, database))
        at = found.end()
        if kind == "RENAME":
            step = re.compile(r"\s*(?:(?:WAIT\s+\d+|NOWAIT)\s+)?(?:TO\b|,)", re.IGNORECASE)
        elif kind == "DROP":
            step = re.compile(r"\s*,")
        else:
            break
        next_one = step.match(text, at)
        if next_one is None:
            break
        at = next_one.end()
    rest, moves_rows, replaces = _masked(text[at:]), False, kind == "CREATE" and is_replacing
    if kind == "ALTER":
        in_place = _MOVES_ROWS.search(rest) is not None
        moves_rows = in_place or _LEAVES_OUT.match(text) is not None
        replaces = _DISCARDS.match(rest) is not None
        other = (_OTHER_TABLE if in_place else _RENAMED).search(rest)
        if other is not None and (found := _NAME.match(text, at + other.end())) is not None:
            tables.append(_qualified(found, database))
    return Change(kind, tuple(tables), moves_rows, replaces) if tables else None
