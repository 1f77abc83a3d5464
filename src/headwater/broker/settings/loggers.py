"""Log levels as configs: the broker logger resource, for headwater's own loggers only.

DescribeConfigs and IncrementalAlterConfigs call it. As in Kafka a level set this way ends with the
process. An application that embeds a broker keeps its other loggers to itself: the topmost one here
is `headwater`, and it stands where Kafka has `root`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.settings.alter import Operation, Refusal, Verb
from headwater.broker.settings.values import Source

ROOT = "headwater"
LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}


def logger_entries(names: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """The level in force of each logger, or of those named."""
    return [
        {
            "name": name,
            "value": _level_name(logger.getEffectiveLevel()),
            "read_only": False,
            "config_source": Source.LOGGER,
            "is_sensitive": False,
        }
        for name, logger in sorted(_loggers().items())
        if names is None or name in names
    ]


def check_levels(operations: Sequence[Operation]) -> None:
    """Refuse what is not a level of one of our loggers; nothing is changed yet."""
    loggers = _loggers()
    for name, verb, value in operations:
        if verb not in (Verb.SET, Verb.DELETE):
            sentence = f"{Verb(verb).name} operation is not allowed for the BROKER_LOGGER resource"
            raise Refusal(ErrorCode.invalid_request, sentence)
        if name not in loggers:
            raise Refusal(ErrorCode.invalid_config, f"Logger {name} does not exist!")
        if verb == Verb.DELETE and name == ROOT:
            sentence = f"Removing the log level of the {ROOT} logger is not allowed"
            raise Refusal(ErrorCode.invalid_request, sentence)
        if verb == Verb.SET and value not in LEVELS:
            raise Refusal(
                ErrorCode.invalid_config,
                f"Cannot set the log level of {name} to {value} as it is not a supported log "
                f"level. Valid log levels are {', '.join(sorted(LEVELS))}",
            )


def set_levels(operations: Sequence[Operation]) -> None:
    """Carry out operations that `check_levels` has passed."""
    for name, verb, value in operations:
        level = LEVELS[value or ""] if verb == Verb.SET else logging.NOTSET
        logging.getLogger(name).setLevel(level)


def _loggers() -> dict[str, logging.Logger]:
    known = logging.Logger.manager.loggerDict
    names = [name for name in known if name == ROOT or name.startswith(f"{ROOT}.")]
    return {name: logging.getLogger(name) for name in (ROOT, *names)}


def _level_name(level: int) -> str:
    """The finest level that still lets through what this one does."""
    return next((name for name, number in LEVELS.items() if level <= number), "FATAL")
