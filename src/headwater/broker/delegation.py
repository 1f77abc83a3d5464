"""Delegation tokens (KIP-48) are not there; this is how the four APIs for them say so.

As a Kafka broker without a master key: who has not logged in may not ask at all, who has is told that
tokens are switched off.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Context
from headwater.broker.security.principal import ANONYMOUS


def refused(context: Context) -> dict[str, Any]:
    if context.principal == ANONYMOUS:
        return {"error_code": ErrorCode.delegation_token_request_not_allowed}
    return {"error_code": ErrorCode.delegation_token_auth_disabled}
