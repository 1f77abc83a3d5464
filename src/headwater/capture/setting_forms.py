"""What `[capture.NAME]` may say in the settings that every kind of source has; pure.

Called by `config` before a capture is made of them, so that a text is not taken for a list of letters, nor
"no" for yes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

_Check = Callable[[object], bool]


def _are_names(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) and each for each in value)


def _is_choice(value: object) -> bool:
    return isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _are_configs(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(v, str | int | float) for v in value.values()
    )


def _is_number_of_partitions(value: object) -> bool:
    return type(value) is int and (value > 0 or value == -1)


def _is_registry(value: object) -> bool:
    return value is None or (isinstance(value, str) and urlsplit(value).scheme in ("http", "https"))


_CHOICE = (_is_choice, "is neither true nor false", "write it without quotes")
_FORMS: Mapping[str, tuple[_Check, str, str]] = {
    "tables": (_are_names, "is no list of tables", 'as in ["customers", "orders"]'),
    "schema": _CHOICE,
    "tombstones": _CHOICE,
    "transactions": _CHOICE,
    "topic_config": (
        _are_configs,
        "is no table of names and values",
        'as in { "retention.ms" = "-1" }',
    ),
    "partitions": (
        _is_number_of_partitions,
        "is no number of partitions",
        "give a whole number from 1 on; without it the broker's default counts",
    ),
    "outbox": (_is_text, "is no text in quotes", 'as in "outbox"'),
    "registry": (_is_registry, "is no address of a registry", 'as in "http://127.0.0.1:8081"'),
}


def complaint(settings: Mapping[str, object]) -> tuple[str, str] | None:
    """The first that has a wrong form, as a sentence and what to write instead; None: all are right."""
    for name, value in settings.items():
        form = _FORMS.get(name)
        if form is not None and not form[0](value):
            shown = "" if name == "registry" else f" = {value!r}"
            return f"{name}{shown} {form[1]}", form[2]
    return None


def as_texts(configs: Mapping[str, object]) -> dict[str, str]:
    """Configs of a topic as Kafka takes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in configs.items()
    }
