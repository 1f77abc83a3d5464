"""AlterUserScramCredentials (key 51), version 0: give users credentials, or take them away; KIP-554.

The client salts the password; what arrives here is turned into the two keys that are kept, and is not
kept itself. Done when the catalogue's record is durable. Each user succeeds or fails for itself; one
that is named twice for the same mechanism fails.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.bounds import NAME_CHARS_MAX, SECRET_BYTES_MAX
from headwater.broker.registry import Api, Context, Response
from headwater.broker.security import scram
from headwater.broker.security.scram import Credential, Mechanism
from headwater.broker.topic_admission import TopicError, storage_errors
from headwater.broker.turns import Pace

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

Problem = tuple[ErrorCode, str]


async def alter_user_scram_credentials(broker: Broker, request: Any, context: Context) -> Response:
    changes = [*request.deletions, *request.upsertions]
    refused = _refused(broker, request, changes)
    done, pace = set(), Pace(broker.supervisor.monotonic)
    for number, change in enumerate(changes):
        await pace.rest()
        if change.name in refused:
            continue
        mechanism, kept = scram.BY_CODE[change.mechanism], None
        if number >= len(request.deletions):
            secret = change.salted_password
            kept = scram.credential(mechanism, secret, change.salt, change.iterations)
        try:
            with storage_errors():
                await _alter(broker, change.name, mechanism, kept)
        except TopicError as error:
            refused[change.name] = (error.code, str(error))
        else:
            done.add(change.name)
    done -= refused.keys()
    rows = [{"user": name, "error_code": ErrorCode.none, "error_message": None} for name in done]
    for name, (code, sentence) in refused.items():
        rows.append({"user": name, "error_code": code, "error_message": sentence})
    return {"results": rows}


async def _alter(broker: Broker, name: str, mechanism: Mechanism, kept: Credential | None) -> None:
    if kept is None:
        await broker.credentials.remove(mechanism, name)
    else:
        await broker.credentials.put(mechanism, name, kept)


def _refused(broker: Broker, request: Any, changes: list[Any]) -> dict[str, Problem]:
    refused: dict[str, Problem] = {}
    counts = Counter((change.name, change.mechanism) for change in changes)
    for (name, _), count in counts.items():
        if count > 1:
            refused[name] = (
                ErrorCode.duplicate_resource,
                "A user credential cannot be altered twice in the same request",
            )
    for change in changes:
        problem = _problem(change)
        if problem is not None:
            refused.setdefault(change.name, problem)
    users = broker.credentials.users()
    for change in request.deletions:
        if change.name not in refused:
            if scram.BY_CODE[change.mechanism].name not in users.get(change.name, {}):
                refused[change.name] = (
                    ErrorCode.resource_not_found,
                    "Attempt to delete a user credential that does not exist",
                )
    return refused


def _problem(change: Any) -> Problem | None:
    unacceptable = ErrorCode.unacceptable_credential
    if not change.name:
        return unacceptable, "Username must not be empty"
    if len(change.name) > NAME_CHARS_MAX:
        return unacceptable, f"A user's name has at most {NAME_CHARS_MAX} characters"
    if change.mechanism not in scram.BY_CODE:
        return ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism"
    iterations = getattr(change, "iterations", None)
    if iterations is None:
        return None
    if iterations < scram.ITERATIONS_MIN:
        return unacceptable, "Too few iterations"
    if iterations > scram.ITERATIONS_MAX:
        return unacceptable, "Too many iterations"
    if not change.salt or not change.salted_password:
        return unacceptable, "Salt and salted password must not be empty"
    if max(len(change.salt), len(change.salted_password)) > SECRET_BYTES_MAX:
        return unacceptable, f"Salt and salted password have at most {SECRET_BYTES_MAX} bytes"
    return None


API = Api(51, "AlterUserScramCredentials", (0, 0), alter_user_scram_credentials)
