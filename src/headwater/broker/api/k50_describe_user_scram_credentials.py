"""DescribeUserScramCredentials (key 50), version 0: who has which mechanism; KIP-554.

Answers with mechanism and iterations of each user, never with salts or keys. No users named: all.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response, always
from headwater.broker.security.scram import MECHANISMS

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def describe_user_scram_credentials(broker: Broker, request: Any, context: Context) -> Response:
    known = broker.credentials.users()
    if not request.users:
        return {"results": [_row(user, kept) for user, kept in known.items()]}
    asked = Counter(each.name for each in request.users)
    return {"results": [_asked(user, count, known) for user, count in asked.items()]}


def _asked(user: str, count: int, known: dict[str, Any]) -> dict[str, Any]:
    if count > 1:
        return {
            "user": user,
            "error_code": ErrorCode.duplicate_resource,
            "error_message": f"Cannot describe SCRAM credentials for the same user twice in a single "
            f"request: {user}",
        }
    if user not in known:
        return {
            "user": user,
            "error_code": ErrorCode.resource_not_found,
            "error_message": "Attempt to describe a user credential that does not exist: " + user,
        }
    return _row(user, known[user])


def _row(user: str, kept: dict[str, Any]) -> dict[str, Any]:
    return {
        "user": user,
        "credential_infos": [
            {"mechanism": MECHANISMS[name].code, "iterations": credential.iterations}
            for name, credential in kept.items()
        ],
    }


API = Api(50, "DescribeUserScramCredentials", (0, 0), describe_user_scram_credentials, lists=always)
