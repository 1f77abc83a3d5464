"""CreatePartitions (key 37), versions 0–3: let a topic grow; KIP-195. Topics never shrink."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker import internal_topics
from headwater.broker.catalogue import Topic
from headwater.broker.quotas.mutations import Mutations
from headwater.broker.registry import Api, Context, Response
from headwater.broker.topic_admission import PARTITIONS_MAX, TopicError, unknown_topic
from headwater.broker.turns import Pace

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def create_partitions(broker: Broker, request: Any, context: Context) -> Response:
    names = Counter(asked.name for asked in request.topics)
    mutations = Mutations(broker.quotas, context, strict=context.api_version >= 3)
    rows = []
    pace = Pace(broker.supervisor.monotonic)
    for asked in {asked.name: asked for asked in request.topics}.values():
        row: dict[str, object] = {"name": asked.name, "error_message": None}
        try:
            if names[asked.name] > 1:
                raise TopicError(ErrorCode.invalid_request, "Duplicate topic name.")
            _check(broker, asked, broker.catalogue.topics.get(asked.name))
            if not request.validate_only:
                admit = partial(_admit, broker, mutations, asked)
                await broker.topics.grow(asked.name, asked.count, admit)
        except TopicError as error:
            row |= error.row
        rows.append(row)
        await pace.rest()
    return {"results": rows, "throttle_time": mutations.throttle_ms}


def _admit(broker: Broker, mutations: Mutations, asked: Any, topic: Topic) -> None:
    _check(broker, asked, topic)
    broker.disk_space.check_topic()
    mutations.take(asked.count - topic.partitions)


def _check(broker: Broker, asked: Any, topic: Topic | None) -> None:
    if topic is None:
        raise unknown_topic()
    row = internal_topics.find(asked.name)
    if row is not None and row.hashed:
        raise TopicError(
            ErrorCode.invalid_topic_exception,
            f"{asked.name} does not grow: the partition of its records depends on their number.",
        )
    if asked.count == topic.partitions:
        raise TopicError(
            ErrorCode.invalid_partitions, f"Topic already has {topic.partitions} partition(s)."
        )
    if asked.count < topic.partitions:
        raise TopicError(
            ErrorCode.invalid_partitions,
            f"The topic {topic.name} currently has {topic.partitions} partition(s); "
            f"{asked.count} would not be an increase.",
        )
    if asked.count > PARTITIONS_MAX:
        raise TopicError(
            ErrorCode.invalid_partitions, f"A topic has at most {PARTITIONS_MAX} partitions."
        )
    if asked.assignments is not None:
        _check_assignments(broker, asked, asked.count - topic.partitions)


def _check_assignments(broker: Broker, asked: Any, added: int) -> None:
    if len(asked.assignments) != added:
        raise TopicError(
            ErrorCode.invalid_replica_assignment,
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(asked.assignments)} assignment(s) were specified.",
        )
    if any(tuple(item.broker_ids) != (broker.node_id,) for item in asked.assignments):
        raise TopicError(
            ErrorCode.invalid_replica_assignment,
            f"there is one broker, {broker.node_id}: every partition must be assigned to it",
        )


API = Api(37, "CreatePartitions", (0, 3), create_partitions)
