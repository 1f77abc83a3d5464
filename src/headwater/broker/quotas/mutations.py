"""The quota on topics and partitions that are created and deleted, as the handlers use it; KIP-599.

A newer client is refused (THROTTLING_QUOTA_EXCEEDED) while its quota is used up and tries again by itself;
an older one does not know that error: its request is carried out and its connection throttled.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from headwater.broker.quotas.enforcement import Quotas
from headwater.broker.registry import Context
from headwater.broker.topic_admission import TopicError


class Mutations:
    """One request's share of the quota."""

    __slots__ = ("_client", "_principal", "_quotas", "_refused", "_strict")

    def __init__(self, quotas: Quotas, context: Context, *, strict: bool) -> None:
        self._quotas = quotas
        self._principal = context.principal
        self._client = context.client_id
        self._strict = strict
        self._refused = False

    def take(self, partitions: int) -> None:
        """Count this many partitions, or raise TopicError if the client must wait first."""
        quotas = self._quotas
        if not quotas.active:
            return
        if self._strict and quotas.mutations_wait(self._principal, self._client):
            self._refused = True
            raise TopicError(
                ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded."
            )
        quotas.mutate(self._principal, self._client, partitions)

    @property
    def throttle_ms(self) -> int:
        """What the answer says: a newer client is only told to wait when it was refused."""
        quotas = self._quotas
        if not quotas.active or (self._strict and not self._refused):
            return 0
        seconds = quotas.mutations_wait(self._principal, self._client)
        return int(min(seconds * 1000, 2**31 - 1))
