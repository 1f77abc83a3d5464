"""OffsetCommit, OffsetFetch and OffsetDelete: checks first, then the log, then the view.

The handlers k08, k09 and k47 call this through `coordinator.offsets`. A commit is answered when its
records are durable; until then nobody can fetch it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from kio.schema.errors import ErrorCode

from headwater.broker import bounds
from headwater.broker.groups import records
from headwater.broker.groups.core import Core, answer, ticket
from headwater.broker.groups.group import Group
from headwater.broker.groups.journal import Records
from headwater.broker.groups.offsets import GroupOffsets, Key
from headwater.broker.groups.records import OffsetKey, OffsetValue


@dataclass(frozen=True, slots=True)
class Commit:
    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: UUID | None = None
    """Of the topic as it was when the request was looked at."""


@dataclass(frozen=True, slots=True)
class Committer:
    """Who commits. A simple consumer has neither member id nor generation."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    generation: int = -1
    knows_group_not_found: bool = False
    """Version 9+ tells a missing group from an old generation."""
    retention_ms: int = -1
    """Versions 2 to 4 may ask for a retention of their own."""


class Committed:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def commit(self, committer: Committer, commits: Sequence[Commit]) -> list[ErrorCode]:
        """One error code for each commit, in order."""
        core = self._core
        group, error = self.group_of(committer)
        if group is None or error is not ErrorCode.none:
            return [error] * len(commits)
        turn = core.turn()
        core.protocols[group.type].committed_by(group, turn, committer.member_id)
        core.carry_out(group, turn)
        errors = self.commit_errors(group, committer, commits)
        accepted = [c for c, e in zip(commits, errors, strict=True) if e is ErrorCode.none]
        if accepted:
            errors = await self._store(group, committer, accepted, errors)
        return errors

    def commit_errors(
        self, group: Group, committer: Committer, commits: Sequence[Commit]
    ) -> list[ErrorCode]:
        """What is wrong with each of them, of a committer who may commit."""
        limit = self._core.settings.get("offset.metadata.max.bytes")
        topic_id = self._core.topic_id
        return [
            self._topic_error(commit)
            or group.partition_commit_error(
                committer.member_id,
                committer.generation,
                commit.topic,
                topic_id(commit.topic),
                commit.partition,
            )
            or _metadata_error(commit.metadata or "", limit)
            for commit in commits
        ]

    def _topic_error(self, commit: Commit) -> ErrorCode:
        """Has the topic been deleted since the request was looked at?"""
        core, expected = self._core, commit.topic_id
        if not core.knows_topics or expected in (None, core.topic_id(commit.topic)):
            return ErrorCode.none
        return ErrorCode.unknown_topic_or_partition

    def group_of(
        self, committer: Committer, transactional: bool = False
    ) -> tuple[Group | None, ErrorCode]:
        """The group that this committer may commit to, or why it may not."""
        core = self._core
        if core.refusal is not ErrorCode.none:
            return None, core.refusal
        if len(committer.group_id) > bounds.NAME_CHARS_MAX:
            return None, ErrorCode.invalid_group_id
        group = core.groups.get(committer.group_id)
        if group is not None:
            knows_epochs = transactional or committer.knows_group_not_found
            return group, group.commit_error(
                committer.member_id,
                committer.instance_id,
                committer.generation,
                transactional,
                knows_epochs,
            )
        if core.is_share_group(committer.group_id):
            return None, ErrorCode.group_id_not_found
        if committer.generation < 0:  # a simple consumer: its group is nothing but its offsets
            return core.create_classic(committer.group_id), ErrorCode.none
        if committer.knows_group_not_found:
            return None, ErrorCode.group_id_not_found
        return None, ErrorCode.illegal_generation

    def _store(
        self,
        group: Group,
        committer: Committer,
        accepted: list[Commit],
        errors: list[ErrorCode],
    ) -> asyncio.Future[list[ErrorCode]]:
        now = self._core.clock.now_ms()
        expires = now + committer.retention_ms if committer.retention_ms >= 0 else -1
        values: dict[Key, OffsetValue] = {
            (c.topic, c.partition): OffsetValue(
                c.offset,
                c.leader_epoch,
                c.metadata or "",
                now,
                expires,
                self._core.topic_id(c.topic),
            )
            for c in accepted
        }
        keys = list(values)
        offsets = self._core.offsets.open(group.id)
        offsets.begin(keys)
        waiting = ticket()

        def then(error: ErrorCode) -> None:
            offsets.end(keys)
            if error is ErrorCode.none:
                for key, value in values.items():
                    if self._core.is_current(key[0], value):  # else it was deleted meanwhile
                        offsets.count(key, value, entry.order)
            self.let_go(group)
            answer(waiting, [_for_committer(e, error) for e in errors])

        encoded = encode(group.id, dict(values))
        entry = self._core.journal.append(group.id, encoded, then, whole=True)
        return waiting

    def let_go(self, group: Group) -> None:
        """After a commit that failed or was aborted: a group that it had called into being goes."""
        core = self._core
        core.offsets.close(group.id)
        simple = group.protocol_type is None and group.is_idle
        if simple and not core.offsets.of(group.id) and core.groups.get(group.id) is group:
            core.forget(group.id)

    def fetch(
        self, group_id: str, member_id: str | None = None, epoch: int = -1
    ) -> tuple[ErrorCode, GroupOffsets]:
        """All that the group has committed durably; a group that nobody knows has nothing."""
        group = self._core.groups.get(group_id)
        error = group.fetch_error(member_id, epoch) if group is not None else ErrorCode.none
        return self._core.refusal or error, self._core.offsets.of(group_id)

    async def delete(self, group_id: str, keys: Sequence[Key]) -> tuple[ErrorCode, list[ErrorCode]]:
        """The error for the whole request, and one for each partition."""
        core = self._core
        if core.refusal is not ErrorCode.none:
            return core.refusal, []
        group = core.groups.get(group_id)
        error = group.offset_delete_error() if group else ErrorCode.group_id_not_found
        if group is None or error is not ErrorCode.none:
            return error, []
        errors = [
            ErrorCode.group_subscribed_to_topic if group.subscribes(topic) else ErrorCode.none
            for topic, _ in keys
        ]
        offsets, asked = core.offsets.of(group_id), zip(keys, errors, strict=True)
        going = [key for key, error in asked if error is ErrorCode.none and offsets.holds(key)]
        if not going:
            return ErrorCode.none, errors
        waiting: asyncio.Future[ErrorCode] = ticket()
        self.erase(group_id, going, lambda failed: answer(waiting, failed))
        return await waiting, errors

    def erase(self, group_id: str, keys: list[Key], then: Callable[[ErrorCode], None]) -> None:
        """Write tombstones, and forget the offsets once these are durable."""

        def erased(error: ErrorCode) -> None:
            if error is ErrorCode.none:
                offsets = self._core.offsets.of(group_id)
                for key in keys:
                    offsets.count(key, None, entry.order)
                self._core.offsets.close(group_id)
            then(error)

        entry = self._core.journal.append(group_id, encode(group_id, dict.fromkeys(keys)), erased)


def encode(group_id: str, values: Mapping[Key, OffsetValue | None]) -> Records:
    return [
        (
            records.offset_key(OffsetKey(group_id, *key)),
            None if value is None else records.offset_value(value),
        )
        for key, value in values.items()
    ]


def _metadata_error(metadata: str, limit: int) -> ErrorCode:
    fits = len(metadata) <= limit and len(metadata.encode()) <= records.STRING_BYTES_MAX
    return ErrorCode.none if fits else ErrorCode.offset_metadata_too_large


def _for_committer(own: ErrorCode, failed: ErrorCode) -> ErrorCode:
    if own is not ErrorCode.none or failed is ErrorCode.none:
        return own
    if failed is ErrorCode.record_list_too_large:
        return ErrorCode.invalid_commit_offset_size
    return failed
