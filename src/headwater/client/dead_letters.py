"""Dead letters as everybody outside the broker writes them: names of topics, a letter as a draft or a row.

    draft    for whoever has a way of writing: an appender, a producer, a transaction that other records share
    letter   for whoever produces by himself, and for a DataFrame (COLUMNS) that the sink writes
    DeadLetterWriter   (`dead_letter_writer`) for tasks that may be tried again: each letter once

What a letter is, and how it is cut, says `record.dead_letter`; `browse.dead_letters` reads and replays them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.record.dead_letter import Cause as Cause
from headwater.record.dead_letter import Headers
from headwater.record.dead_letter import Letter as Letter
from headwater.record.dead_letter import letter as letter

if TYPE_CHECKING:
    from headwater.client.log import Log
    from headwater.client.publisher import Draft

PREFIX, SUFFIX = "dlq.", ".dead-letters"
"""A share group's or a view's topic, and the one beside the topic that the records came from."""
COLUMNS = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
"""Of a DataFrame of letters."""
_KEEP_FOR_EVER = "-1"


def is_dead_letters(topic: str) -> bool:
    return topic.startswith(PREFIX) or topic.endswith(SUFFIX)


def beside(topic: str) -> str:
    """The topic for what came from this one, or was to come into it."""
    return topic + SUFFIX


def draft(
    key: bytes | None,
    value: bytes | None,
    own: Headers,
    cause: Cause,
    partition: int | None = None,
) -> Draft:
    """`partition`: where in the dead-letter topic."""
    from headwater.client.publisher import Draft

    return Draft(*letter(key, value, own, cause), partition=partition)


def ensure(log: Log, topic: str) -> bool:
    """There when this returns; whether it had to be made."""
    from headwater.client import topics

    return topics.ensure(log, topic, 1, retention_ms=_KEEP_FOR_EVER)
