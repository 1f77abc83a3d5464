"""What `[capture.NAME]` may say: the settings of every kind of source, and those that only one has; pure.

Called by `config` before a capture is made of them, so that a text is not taken for a list of letters, nor
"no" for yes; and nothing has to be reached to find that out. A setting that stands nowhere here is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headwater.value_forms import (
    WHOLE_MOST,
    are_texts,
    is_number,
    is_text,
    is_web_address,
    is_whole,
    port_complaint,
    without_secrets,
)


class Form(NamedTuple):
    """Whether a value is right; what is to be said where it is not; what to write instead."""

    is_right: Callable[[object], bool]
    said: str
    hint: str


def _are_configs(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(v, str | int | float) for v in value.values()
    )


def _word(*known: str) -> Form:
    said = f"is none of {', '.join(known)}"
    return Form(lambda value: value in known, said, f'as in "{known[0]}"')


def _whole(low: int, what: str, high: int = WHOLE_MOST) -> Form:
    return Form(
        lambda value: is_whole(value, low, high),
        f"is no {what}",
        f"give a whole number from {low} to {high}",
    )


def _server(*schemes: str) -> Form:
    def is_right(value: object) -> bool:
        if not is_text(value):
            return False
        address = without_secrets(str(value))
        return address.startswith(schemes) and port_complaint(address, needs_host=False) is None

    return Form(is_right, "is no address of a server", f'as in "{schemes[0]}user@replica/shop"')


_CHOICE = Form(
    lambda value: isinstance(value, bool), "is neither true nor false", "write it without quotes"
)
_TEXT = Form(is_text, "is no text in quotes", "write a name")
_NAMES = Form(are_texts, "is no list of tables", 'as in ["customers", "orders"]')
_SECONDS = _whole(1, "number of seconds", 86_400)
_WORKERS = _whole(1, "number of readers", 1_000)

COMMON: Mapping[str, Form] = {
    "tables": _NAMES,
    "format": Form(lambda value: True, "", ""),  # known to `config`, with what it needs
    "schema": _CHOICE,
    "tombstones": _CHOICE,
    "transactions": _CHOICE,
    "topic_config": Form(
        _are_configs, "is no table of names and values", 'as in { "retention.ms" = "-1" }'
    ),
    "partitions": Form(
        lambda value: value == -1 or is_whole(value, 1),
        "is no number of partitions",
        "give a whole number from 1 on; without it the broker's default counts",
    ),
    "record_bytes_max": _whole(1_000, "size in bytes"),
    "snapshot_rows_per_second": _whole(0, "number of rows; 0 is without a limit"),
    "snapshot_max_lag_s": Form(
        lambda value: is_number(value, 0),
        "is no number of seconds",
        "give a number, such as 10; 0 is without a limit",
    ),
    "outbox": Form(
        lambda value: value is None or is_text(value), "is no text in quotes", 'as in "outbox"'
    ),
    "traced": Form(
        lambda value: is_number(value, 0, 1),
        "is no share of the records",
        "a number from 0 to 1; 0.01 is one record of a hundred",
    ),
    "registry": Form(
        lambda value: value is None or is_web_address(value),
        "is no address of a registry",
        'as in "http://127.0.0.1:8081"',
    ),
}
"""Of every kind of source."""
_POSTGRES: Mapping[str, Form] = {
    "slot": Form(
        lambda value: (
            isinstance(value, str) and re.fullmatch(r"[a-z0-9_]{1,63}", value) is not None
        ),
        "is no name that a replication slot can have",
        "use up to 63 small letters, digits and _",
    ),
    "publication": Form(
        lambda value: is_text(value) and len(str(value).encode()) <= 63,
        "is no name that a publication can have",
        "use up to 63 bytes",
    ),
    "streaming": _CHOICE,
    "chunk_rows": _whole(0, "number of rows"),
    "snapshot_workers": _WORKERS,
    "snapshot_from": _server("postgresql://", "postgres://"),
    "slot_budget_mb": _whole(0, "number of megabytes"),
    "slot_lost": _word("stop", "resnapshot"),
    "silence_s": _SECONDS,
    "outbox_prefix": _TEXT,
    "partitions_as": _word("root", "leaf"),
    "read_moved_rows": _CHOICE,
}
_MYSQL: Mapping[str, Form] = {
    "server_id": _whole(0, "number of a server", 2**32 - 1),
    "decimals": _word("string", "precise", "double"),
    "zero_dates": _word("text", "debezium"),
    "chunk_rows": _whole(1, "number of rows"),
    "gtid_jumps": _CHOICE,
    "snapshot_workers": _WORKERS,
    "silence_s": _SECONDS,
    "without_tables": _NAMES,
    "snapshot_from": _server("mysql://", "mariadb://"),
    "read_moved_rows": _CHOICE,
}
_MONGODB: Mapping[str, Form] = {"documents": _word("string", "object"), "silence_s": _SECONDS}
OPTIONS: Mapping[str, Mapping[str, Form]] = {
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "sqlite": {"outbox_delete": _CHOICE},
    "mongodb": _MONGODB,
    "mongodb+srv": _MONGODB,
}
"""Of one kind of source each, by the scheme of its address."""


def complaint(
    settings: Mapping[str, object], forms: Mapping[str, Form] = COMMON
) -> tuple[str, str] | None:
    """The first that has a wrong form, as a sentence and what to write instead; None: all are right."""
    for name, value in settings.items():
        form = forms.get(name)
        if form is not None and not form.is_right(value):
            shown = "" if name in ("registry", "snapshot_from") else f" = {value!r}"
            return f"{name}{shown} {form.said}", form.hint
    return None


def as_texts(configs: Mapping[str, object]) -> dict[str, str]:
    """Configs of a topic as Kafka takes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in configs.items()
    }
