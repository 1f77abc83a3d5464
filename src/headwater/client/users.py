"""Who can log in: SCRAM credentials of a running log. `headwater users` and `promote` ask.

Mechanisms by the names that clients configure: SCRAM-SHA-256, SCRAM-SHA-512.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from headwater.client.log import TIMEOUT_S


def listed(admin: AdminClient) -> dict[str, list[str]]:
    """User → mechanisms."""
    asked: Any = admin.describe_user_scram_credentials(request_timeout=TIMEOUT_S)
    return {
        user: sorted(
            str(info.mechanism.name).replace("_", "-") for info in entry.scram_credential_infos
        )
        for user, entry in asked.result().items()
    }


def put(
    admin: AdminClient, name: str, password: str, mechanisms: Iterable[str], iterations: int
) -> None:
    """A new user, or another password."""
    for each in mechanisms:
        info = ScramCredentialInfo(_theirs(each), iterations)
        _alter(admin, UserScramCredentialUpsertion(name, info, password.encode()))


def remove(admin: AdminClient, name: str, mechanisms: Iterable[str]) -> None:
    for each in mechanisms:
        _alter(admin, UserScramCredentialDeletion(name, _theirs(each)))


def _alter(admin: AdminClient, change: Any) -> None:
    # One by one: librdkafka takes one change of a user at a time.
    for future in admin.alter_user_scram_credentials([change], request_timeout=TIMEOUT_S).values():
        future.result()


def _theirs(mechanism: str) -> Any:
    return getattr(ScramMechanism, mechanism.replace("-", "_"))
