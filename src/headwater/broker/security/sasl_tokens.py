"""Tokens without Kafka's header, as clients send them after a SaslHandshake of version 0 (KIP-43).

    size int32 | token          in both directions

The connection hands such a frame on as a request of an API that no client can name. A refused login
has no answer in this form: the connection is closed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from headwater.broker.registry import NO_ANSWER, Api, Context, Response
from headwater.broker.security.login import LoginFailed
from headwater.fair_queue import Busy
from headwater.wire import messages

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def token_header() -> messages.Header:
    return messages.Header(TOKEN.key, 0, 0, "", 0)


async def _token(broker: Broker, token: Any, context: Context) -> Response:
    connection = context.connection
    try:
        answer = await connection.login.token(token)
    except LoginFailed:
        connection.close_after_answer = True
        await asyncio.sleep(broker.settings.get("connection.failed.authentication.delay.ms") / 1000)
        return NO_ANSWER
    except Busy:
        connection.close_after_answer = True
        return NO_ANSWER
    if connection.login.open:
        connection.logged_in(connection.login.principal)
    return {"token": answer}


TOKEN = Api(-1, "SASL token", (0, 0), _token, only_looks=True)
