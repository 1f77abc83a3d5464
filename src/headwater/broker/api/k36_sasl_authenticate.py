"""SaslAuthenticate (key 36), versions 0–2: one token of a login; KIP-152, KIP-368 (1: session lifetime).

What the tokens mean is `security.login`'s concern. A refused login is answered after
`connection.failed.authentication.delay.ms`, with a sentence that tells nothing about the reason, and
the connection is closed. Where there is no place to wait for a check, it is closed without an answer.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import NO_ANSWER, Api, Context, Response
from headwater.broker.security.login import LoginFailed, State
from headwater.fair_queue import Busy

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def sasl_authenticate(broker: Broker, request: Any, context: Context) -> Response:
    login = context.connection.login
    if login is None or login.state is not State.TOKENS:
        return {
            "error_code": ErrorCode.illegal_sasl_state,
            "error_message": "SaslAuthenticate request received after successful authentication",
        }
    try:
        answer = await login.token(request.auth_bytes)
    except LoginFailed as error:
        await refused(broker, context.connection)
        return {
            "error_code": ErrorCode.sasl_authentication_failed,
            "error_message": str(error),
            "auth_bytes": b"",
        }
    except Busy:
        context.connection.close_after_answer = True
        return NO_ANSWER
    found = {"error_message": "", "auth_bytes": answer}
    if not login.open:
        return found
    context.connection.logged_in(login.principal)
    return {**found, "session_lifetime": login.session_ms}


async def refused(broker: Broker, connection: Any) -> None:
    """Let the client wait, and see that it goes."""
    connection.close_after_answer = True
    await asyncio.sleep(broker.settings.get("connection.failed.authentication.delay.ms") / 1000)


API = Api(36, "SaslAuthenticate", (0, 2), sasl_authenticate, only_looks=True)
