"""The internal topics of Kafka Streams' applications: k88 has those made that a topology lacks.

They are made as by CreateTopics, with the same bounds and quotas, in the name of the member whose heartbeat
found them missing, and are in the audit trail as topics made on first use. What could not be made is said in
the heartbeat's status; the next one tries again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from headwater.broker.audit.changes import topic_made
from headwater.broker.groups.streams.partitions import ConfiguredTopic, summary
from headwater.broker.quotas.mutations import Mutations
from headwater.broker.registry import Context
from headwater.broker.topic_admission import TopicError
from headwater.broker.turns import Pace, in_turns

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

PARTITIONS_AT_ONCE = 10_000
TOPICS_AT_ONCE = 1_000
"""As many as one CreateTopics may ask for."""
SHOWN = 3
API_NAME = "StreamsGroupHeartbeat"


async def make_topics(broker: Broker, missing: Sequence[ConfiguredTopic], context: Context) -> str:
    """Make them; the rest of the status's sentence, if that did not go well."""
    turns = in_turns(missing, broker.supervisor.monotonic)
    refused = [topic.name async for topic in turns if not context.may_create(topic.name)]
    if refused:
        return f"; Unauthorized to CREATE on topics {summary(refused)}."
    errors = await _make_some(broker, missing[:TOPICS_AT_ONCE], context)
    if not errors:
        return ""
    more = f" and {len(errors) - SHOWN} more" if len(errors) > SHOWN else ""
    return f"; Creation failed: {', '.join(errors[:SHOWN])}{more}."


async def _make_some(
    broker: Broker, missing: Sequence[ConfiguredTopic], context: Context
) -> list[str]:
    """What went wrong. Of what is left over nothing is said: the next heartbeat goes on."""
    mutations = Mutations(broker.quotas, context, strict=True)
    pace = Pace(broker.supervisor.monotonic)
    left = PARTITIONS_AT_ONCE
    errors = []
    for topic in missing:
        if topic.partitions > left and left < PARTITIONS_AT_ONCE:
            break  # the first of them is tried however large it is, and then says so itself
        try:
            await _make(broker, mutations, topic, context)
            left -= topic.partitions
        except TopicError as error:
            if error.code is not ErrorCode.topic_already_exists:
                errors.append(f"{topic.name} ({error})")
            if error.code is ErrorCode.throttling_quota_exceeded:
                break
        await pace.rest()
    return errors


async def _make(
    broker: Broker, mutations: Mutations, topic: ConfiguredTopic, context: Context
) -> None:
    if topic.info.replication_factor > 1:
        raise TopicError(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {topic.info.replication_factor} time(s): The target "
            f"replication factor of {topic.info.replication_factor} cannot be reached because only 1 "
            "broker(s) are registered.",
        )
    await broker.topics.reserved.over(topic.name)
    broker.topics.check_new(topic.name, topic.partitions, dict(topic.info.configs))
    broker.disk_space.check_topic()
    mutations.take(topic.partitions)
    await broker.topics.create(topic.name, topic.partitions, dict(topic.info.configs))
    broker.trail.tell(API_NAME, topic_made(topic.name, topic.partitions), context)
