"""What administrators do to a share group without members: delete it, or let it begin elsewhere.

DeleteGroups, AlterShareGroupOffsets and DeleteShareGroupOffsets come here. Each looks at the group, and then
waits for the disk: so from the turn of the decision on the group is theirs, and must stay as it was seen.
Nobody joins it, no other administrator changes it, and a group that is being deleted gets no new
share-partition; what is removed from memory must be exactly what has a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from headwater.broker.shares.membership import GroupError, ShareGroup
from headwater.log.partition import StorageFailed

if TYPE_CHECKING:
    from headwater.broker.shares.coordinator import ShareCoordinator


@contextmanager
def alone(shares: ShareCoordinator, group_id: str) -> Iterator[ShareGroup]:
    """With a group without members, made if there is none. Raises GroupError."""
    is_new = group_id not in shares.groups
    group = shares.groups.setdefault(group_id, ShareGroup(group_id))
    group.check_free()
    if group.members:
        raise GroupError(ErrorCode.non_empty_group, "The group is not empty.")
    group.is_held = True
    try:
        yield group
    finally:
        group.is_held = False
        if is_new:
            shares.drop_unused(group_id)


async def delete(shares: ShareCoordinator, group_id: str) -> ErrorCode:
    """Forget a group, durably."""
    if not shares.has(group_id):
        return ErrorCode.group_id_not_found
    try:
        with alone(shares, group_id) as group:
            return await _delete(shares, group)
    except GroupError as error:
        return error.code


async def _delete(shares: ShareCoordinator, group: ShareGroup) -> ErrorCode:
    states = shares.states.known
    known = [key for key in states if key.group_id == group.id]
    for key in [key for key in shares.owners if key.group_id == group.id and key not in states]:
        shares.owners.pop(key).is_gone = True  # it may be about to begin
    group.is_dead = True
    try:
        await shares.forget(known)
    except StorageFailed:
        group.is_dead = False
        return ErrorCode.kafka_storage_error
    del shares.groups[group.id]
    return ErrorCode.none
