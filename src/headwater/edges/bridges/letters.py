"""Dead letters of bridges: what came and cannot be stored, what cannot be sent. Called by `running`.

    in    TOPIC.dead-letters                       the message, where TOPIC is the bridge's topic
    out   headwater.bridge.NAME.dead-letters       the record

Headers as in all dead letters (docs/queues.md), so that `headwater deadletters` shows them and can send
those of a bridge out again. A message that came in has no place in the log: partition and offset are -1.
What is larger than a record may be is cut, and `__dlq.errors.cut` says how many bytes it had.
"""

from __future__ import annotations

from headwater.browse import making
from headwater.browse.dead_letters.letter import HEADER, SUFFIX
from headwater.browse.log import Log
from headwater.browse.publishing import Draft
from headwater.edges.bridges.config import Config
from headwater.edges.bridges.contract import Headers, Message, Refusal

VALUE_BYTES_MAX = 512 * 1024
HEADER_BYTES_MAX = 64 * 1024
KEEP_FOR_EVER = "-1"


def topic_of(config: Config) -> str:
    return (config.topic if config.is_inbound else config.group) + SUFFIX


def of_message(config: Config, message: Message, reason: str) -> Draft:
    where = {"topic": config.topic, "partition": "-1", "offset": "-1"}
    return _letter(config, message.key, message.value, message.headers, where, reason)


def of_refusal(config: Config, refusal: Refusal) -> Draft:
    record = refusal.record
    where = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
    }
    return _letter(config, record.key, record.value, record.headers, where, refusal.reason)


def _letter(
    config: Config,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    where: dict[str, str],
    reason: str,
) -> Draft:
    said = {**where, "group": config.group, "message": reason}
    if value is not None and len(value) > VALUE_BYTES_MAX:
        said["cut"] = str(len(value))
        value = value[:VALUE_BYTES_MAX]
    own = list(headers)
    if sum(len(name) + len(each or b"") for name, each in own) > HEADER_BYTES_MAX:
        said["cut.headers"] = str(len(own))
        own = []
    if key is not None and len(key) > HEADER_BYTES_MAX:
        said["cut.key"] = str(len(key))
        key = key[:HEADER_BYTES_MAX]
    ours = [(HEADER + name, text.encode()) for name, text in said.items()]
    return Draft(key, value, [*own, *ours])


def ensure_topic(log: Log, topic: str) -> None:
    """There when this returns: topics beside one that a person has made are made by us."""
    making.ensure(log, topic, 1, retention_ms=KEEP_FOR_EVER)
