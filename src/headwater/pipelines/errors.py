"""What can be wrong with a pipeline, as one sentence each; and Spark's long answers made short.

`PipelineError` is for mistakes that a person must mend: a query that met one is not tried again.
Whatever else a query raises may pass (a broker that restarts, a disk that was full) and is.
"""

from __future__ import annotations

import re

from headwater.errors import HeadwaterError

LONGEST = 400


class PipelineError(HeadwaterError):
    """A mistake in a pipeline, in its files or in how it was started."""


class NotVerifiable(HeadwaterError):
    """There is nothing to compare a view with, or nothing to compare."""


class StateMisfit(PipelineError):
    """The query was edited, and what it left in its checkpoint belongs to the query as it was."""


class NotRealTime(PipelineError):
    """The query asks for real-time speed and cannot have it."""


# Spark's error conditions that mean: this query's state was written by another query.
_MISFITS = (
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
    "STATE_STORE_VALUE_SCHEMA_EVOLUTION",
    "STATE_STORE_KEY_ROW_FORMAT_VALIDATION_FAILURE",
    "STATE_STORE_VALUE_ROW_FORMAT_VALIDATION_FAILURE",
    "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
    "STATE_STORE_CANNOT_CREATE_COLUMN_FAMILY",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    "STATEFUL_OPERATOR_",
)
_SOURCES_CHANGED = re.compile(r"There are \[(\d+)\] sources in the checkpoint.*?\[(\d+)\]", re.S)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]+)\]\s*")
_SQLSTATE = re.compile(r" SQLSTATE: \w+$")
_PYTHON = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.M)
_OURS = re.compile(r"^headwater\.[\w.]+: (.+)$", re.M)


def misfit(text: str) -> str | None:
    """What no longer fits, where Spark says that a query and its checkpoint do not belong together."""
    if found := _SOURCES_CHANGED.search(text):
        return f"it had {found[1]} sources and now has {found[2]}"
    for condition in _CONDITION.findall(text):
        if condition.startswith(_MISFITS):
            return f"Spark cannot use its stored state ({condition})"
    return None


# What a store or a topic says that no second try mends: another writer took over, its rows are not the
# view's, it does not take such a batch. By class, wherever in these packages it is: modules are renamed.
_STOPPED = re.compile(
    r"^headwater\.(?:views\.(?:[\w.]+\.)?"
    r"(?:Fenced|Misfit|RowRefused|ValueRefused|SearchRequestRefused)"
    r"|[\w.]+\.(?:WriteRefused|LetterNotTaken)): (.+)$",
    re.M,
)
_TOO_LONG = re.compile(r"\bheadwater\.spark\.[\w.]+\.BatchTooLong\b")
_MOVED = re.compile(r"\bheadwater\.spark\.[\w.]+\.SchemaMoved\b")
_AWAY = re.compile(r"\bheadwater\.views\.[\w.]+\.Unavailable\b")


def told_to_stop(text: str) -> str | None:
    """Why a store wants no further batch, in the text of a query's failure."""
    found = _STOPPED.findall(text)
    return found[-1] if found else None


def took_too_long(text: str) -> bool:
    """Whether a batch outlived the transaction in which it was to be written to a topic."""
    return _TOO_LONG.search(text) is not None


def schema_moved(text: str) -> bool:
    """Whether a topic's latest schema has other columns than the query."""
    return _MOVED.search(text) is not None


def is_away(text: str) -> bool:
    """Whether a query failed because its store does not answer."""
    return _AWAY.search(text) is not None


def brief(error: BaseException | str) -> str:
    """An error as one line: the last line of a Python traceback, or Spark's own first sentence."""
    if isinstance(error, HeadwaterError):
        return error.with_hint
    text = str(error).strip()
    # Spark repeats the worker's traceback inside its own message; its last line is the cause.
    if ours := _OURS.findall(text):
        text = ours[-1]
    elif raised := _PYTHON.findall(text):
        text = ": ".join(raised[-1])
    elif found := _CONDITION.search(text):
        text = text[found.start() :]
    elif not isinstance(error, str):
        text = f"{type(error).__name__}: {text}"
    line = _SQLSTATE.sub("", " ".join(_first_paragraph(text).split()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _first_paragraph(text: str) -> str:
    for mark in ("\n\tat ", "\n\nJVM stacktrace", "\nJVM stacktrace", ";\n", "\n=== ", "\n\n"):
        text = text.split(mark, 1)[0]
    return text.strip()


class SchemaAwaited(PipelineError):
    """A topic has no schema in the registry yet; who captures it registers one before its first record."""
