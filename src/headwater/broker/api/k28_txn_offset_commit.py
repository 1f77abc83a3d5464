"""TxnOffsetCommit (key 28), versions 0–5: offsets that count if the transaction commits; KIP-98, KIP-447.

They are written to `__consumer_offsets` as part of the transaction, and nobody sees them before its
commit marker is there. The older protocol wants AddOffsetsToTxn first; from version 5 on (KIP-890) the
group's partition is added by this request itself. From version 3 on a member gives its id and
generation, so that a member that was put out of its group cannot commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.groups.offset_store import Commit, Committer
from headwater.broker.internal_topic import Staged
from headwater.broker.internal_topics import CONSUMER_OFFSETS as OFFSETS
from headwater.broker.registry import Api, Context
from headwater.broker.transactions.admission import for_older_clients
from headwater.broker.transactions.transitions import Producer
from headwater.log.partition import StorageFailed

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

IMPLICIT_SINCE = 5
ABORTABLE_SINCE = 4


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    commits: list[Commit] = []
    slots: list[dict[str, Any]] = []
    topics = [_topic(broker, topic, commits, slots) for topic in request.topics]
    if commits:
        errors = await _commit(broker, request, context, commits)
        for slot, error in zip(slots, errors, strict=True):
            slot["error_code"] = error
    return {"topics": topics}


async def _commit(
    broker: Broker, request: Any, context: Context, commits: list[Commit]
) -> list[ErrorCode]:
    if not request.group_id:
        return [ErrorCode.invalid_group_id] * len(commits)
    try:
        await broker.offsets_topic.ensure()
    except StorageFailed:
        return [ErrorCode.coordinator_not_available] * len(commits)
    room = broker.state.for_offsets(request.group_id, commits)
    if room is None:
        return [ErrorCode.invalid_commit_offset_size] * len(commits)
    producer = Producer(request.producer_id, request.producer_epoch)
    where = (OFFSETS, broker.offsets_topic.partition_of(request.group_id).number)

    def admit() -> tuple[ErrorCode, Staged | None]:
        coordinator = broker.transactions
        if coordinator.refusal is not ErrorCode.none:
            return coordinator.refusal, None
        if context.api_version >= IMPLICIT_SINCE:
            error, written = coordinator.add_now(request.transactional_id, producer, [where])
        else:
            error, written = coordinator.verify(request.transactional_id, producer, where)
        return for_older_clients(error, context.api_version >= ABORTABLE_SINCE), written

    errors = await broker.groups.pending.commit(_committer(request), commits, producer, admit)
    if ErrorCode.none not in errors:
        room.give_back()
    return errors


def _committer(request: Any) -> Committer:
    return Committer(
        group_id=request.group_id,
        member_id=getattr(request, "member_id", ""),
        instance_id=getattr(request, "group_instance_id", None),
        generation=getattr(request, "generation_id", -1),
    )


def _topic(
    broker: Broker, topic: Any, commits: list[Commit], slots: list[dict[str, Any]]
) -> dict[str, Any]:
    """The topic's part of the answer; what can be committed is added to `commits` and `slots`."""
    partitions: list[dict[str, Any]] = []
    known = broker.catalogue.topics.get(topic.name)
    for each in topic.partitions:
        row = {
            "partition_index": each.partition_index,
            "error_code": ErrorCode.unknown_topic_or_partition,
        }
        partitions.append(row)
        if known is not None and broker.topics.has(topic.name, each.partition_index):
            slots.append(row)
            commits.append(
                Commit(
                    topic.name,
                    each.partition_index,
                    each.committed_offset,
                    getattr(each, "committed_leader_epoch", -1),
                    each.committed_metadata,
                    known.id,
                )
            )
    return {"name": topic.name, "partitions": partitions}


API = Api(28, "TxnOffsetCommit", (0, 5), handle)
