"""CreateTopics (key 19), versions 2–7: KIP-4, KIP-525 (configs in the answer), KIP-516 (topic ids).

Done when the catalogue's record is durable and the partitions can be used. One node: a replication
factor other than 1 (or -1, the default) is refused, and assignments may name this node only.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.bounds import TOPICS_MADE_MAX
from headwater.broker.catalogue import Topic
from headwater.broker.quotas.mutations import Mutations
from headwater.broker.registry import Api, Context, Response
from headwater.broker.topic_admission import TopicError
from headwater.broker.turns import Pace

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


PARTITIONS_IN_ALL_MAX = 10_000
_MANY_PARTITIONS = (
    f"more than {PARTITIONS_IN_ALL_MAX} partitions in one request; send them in several"
)
_MANY = f"more than {TOPICS_MADE_MAX} topics in one request; send them in several"


async def create_topics(broker: Broker, request: Any, context: Context) -> Response:
    names = Counter(asked.name for asked in request.topics)
    mutations = Mutations(broker.quotas, context, strict=context.api_version >= 6)
    rows: list[dict[str, Any]] = []
    pace = Pace(broker.supervisor.monotonic)
    many = len(request.topics) > TOPICS_MADE_MAX
    left = PARTITIONS_IN_ALL_MAX
    for asked in {asked.name: asked for asked in request.topics}.values():
        try:
            if names[asked.name] > 1:
                raise TopicError(ErrorCode.invalid_request, "Duplicate topic name.")
            if many:
                raise TopicError(ErrorCode.policy_violation, _MANY)
            left -= max(asked.num_partitions, len(asked.assignments), 1)
            if left < 0:
                raise TopicError(ErrorCode.policy_violation, _MANY_PARTITIONS)
            rows.append(await _create(broker, mutations, asked, request.validate_only))
        except TopicError as error:
            rows.append(
                {
                    "name": asked.name,
                    "error_code": error.code,
                    "error_message": str(error),
                    "num_partitions": -1,
                    "replication_factor": -1,
                    "configs": None,
                }
            )
        await pace.rest()
    return {"topics": rows, "throttle_time": mutations.throttle_ms}


async def _create(
    broker: Broker, mutations: Mutations, asked: Any, validate_only: bool
) -> dict[str, Any]:
    partitions = _partitions(broker, asked)
    configs = _configs(asked)
    await broker.topics.reserved.over(asked.name)
    if validate_only:
        topic = broker.topics.check_new(asked.name, partitions, configs)
    else:
        broker.topics.check_new(asked.name, partitions, configs)
        broker.disk_space.check_topic()
        mutations.take(partitions)
        topic = await broker.topics.create(asked.name, partitions, configs)
    return {
        "name": topic.name,
        "topic_id": None if validate_only else topic.id,
        "num_partitions": topic.partitions,
        "replication_factor": 1,
        "configs": _described(broker, topic),
    }


def _partitions(broker: Broker, asked: Any) -> int:
    """How many partitions are wanted. Raises TopicError for what one node cannot do."""
    if asked.assignments:
        return _assigned(broker, asked)
    if asked.num_partitions == 0 or asked.num_partitions < -1:
        raise TopicError(
            ErrorCode.invalid_partitions,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if asked.replication_factor == 0 or asked.replication_factor < -1:
        raise TopicError(
            ErrorCode.invalid_replication_factor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if asked.replication_factor > 1:
        raise TopicError(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {asked.replication_factor} time(s): The target "
            f"replication factor of {asked.replication_factor} cannot be reached because only "
            f"1 broker(s) are registered.",
        )
    if asked.num_partitions == -1:
        default: int = broker.settings.get("num.partitions")
        return default
    return int(asked.num_partitions)


def _assigned(broker: Broker, asked: Any) -> int:
    if asked.num_partitions != -1 or asked.replication_factor != -1:
        raise TopicError(
            ErrorCode.invalid_request,
            "A manual partition assignment was given: partitions and replication factor must be -1.",
        )
    numbers = sorted(item.partition_index for item in asked.assignments)
    if numbers != list(range(len(numbers))):
        raise TopicError(
            ErrorCode.invalid_replica_assignment,
            "partitions should be a consecutive 0-based integer sequence",
        )
    if any(tuple(item.broker_ids) != (broker.node_id,) for item in asked.assignments):
        raise TopicError(
            ErrorCode.invalid_replica_assignment,
            f"there is one broker, {broker.node_id}: every partition must be assigned to it",
        )
    return len(numbers)


def _configs(asked: Any) -> dict[str, str]:
    configs: dict[str, str] = {}
    for entry in asked.configs:
        if entry.value is None:
            raise TopicError(
                ErrorCode.invalid_config,
                f"Null value not supported for topic configs: {entry.name}",
            )
        configs[entry.name] = entry.value
    return configs


def _described(broker: Broker, topic: Topic) -> list[dict[str, Any]]:
    """The topic's configs as they now are (KIP-525)."""
    from headwater.broker.settings import topic_definitions
    from headwater.broker.settings.definitions import render
    from headwater.broker.settings.topic import topic_default

    rows = []
    for definition in topic_definitions():
        own = definition.name in topic.configs
        value = (
            topic.configs[definition.name]
            if own
            else render(topic_default(broker.settings, definition))
        )
        rows.append(
            {
                "name": definition.name,
                "value": value,
                "read_only": False,
                "config_source": 1 if own else 5,
                "is_sensitive": False,
            }
        )
    return rows


API = Api(19, "CreateTopics", (2, 7), create_topics)
