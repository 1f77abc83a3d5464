"""AddPartitionsToTxn (key 24), versions 0–5: which partitions a transaction writes to; KIP-98, KIP-890.

Clients of the older protocol (0–3) send it before they write; with transaction version 2 a Produce does
it by itself. Versions 4 and 5 are for brokers: several transactions at once, and `verify_only`, which
only asks. If one partition does not exist none is added, and the others are OPERATION_NOT_ATTEMPTED; so it is
if only the broker writes to one, because the end of the transaction would leave a marker there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker import internal_topics
from headwater.broker.registry import Api, Context, Response
from headwater.broker.transactions.transaction import TopicPartition
from headwater.broker.transactions.transitions import Producer

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

Errors = dict[TopicPartition, ErrorCode]


async def add_partitions(broker: Broker, request: Any, context: Context) -> Response:
    version = context.api_version
    if version < 4:
        producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        name, topics = request.v3_and_below_transactional_id, request.v3_and_below_topics
        errors = await _add(broker, name, producer, topics, 0)
        if version < 2:
            errors = {
                each: ErrorCode.invalid_producer_epoch if e is ErrorCode.producer_fenced else e
                for each, e in errors.items()
            }
        return {"results_by_topic_v3_and_below": _rows(topics, errors)}
    results = []
    for asked in request.transactions:
        producer, name = Producer(asked.producer_id, asked.producer_epoch), asked.transactional_id
        if asked.verify_only:
            errors = _verify(broker, name, producer, asked.topics)
        else:
            errors = await _add(broker, name, producer, asked.topics, 2)
        results.append({"transactional_id": name, "topic_results": _rows(asked.topics, errors)})
    return {"results_by_transaction": results}


def _partitions(topics: Any) -> list[TopicPartition]:
    return [(topic.name, number) for topic in topics for number in topic.partitions]


async def _add(broker: Broker, name: str, producer: Producer, topics: Any, version: int) -> Errors:
    wanted = _partitions(topics)
    if broker.transactions.refusal is not ErrorCode.none:
        return dict.fromkeys(wanted, broker.transactions.refusal)
    if not name:
        return dict.fromkeys(wanted, ErrorCode.invalid_request)
    refused = {each: code for each in wanted if (code := _refusal(broker, *each))}
    if refused:
        return {each: refused.get(each, ErrorCode.operation_not_attempted) for each in wanted}
    return dict.fromkeys(wanted, await broker.transactions.add(name, producer, wanted, version))


def _refusal(broker: Broker, topic: str, number: int) -> ErrorCode:
    if internal_topics.written_by_broker(topic):
        return ErrorCode.invalid_topic_exception
    is_there = broker.partition(topic, number) is not None
    return ErrorCode.none if is_there else broker.absence(topic, number)


def _verify(broker: Broker, name: str, producer: Producer, topics: Any) -> Errors:
    wanted = _partitions(topics)
    if not name:
        return dict.fromkeys(wanted, ErrorCode.invalid_request)
    return {each: broker.transactions.verify(name, producer, each)[0] for each in wanted}


def _rows(topics: Any, errors: Errors) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.name,
            "results_by_partition": [
                {
                    "partition_index": number,
                    "partition_error_code": errors[topic.name, number],
                }
                for number in topic.partitions
            ],
        }
        for topic in topics
    ]


API = Api(24, "AddPartitionsToTxn", (0, 5), add_partitions)
