"""SaslHandshake (key 17), versions 0–1: a client chooses how to log in; KIP-43, KIP-152, KIP-368.

After version 0 the tokens come without Kafka's header, after version 1 in SaslAuthenticate. A mechanism
that the listener does not offer is answered with those it does, and the connection closed. A client
that has logged in already gets ILLEGAL_SASL_STATE, unless its login is going to end
(`connections.max.reauth.ms`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def sasl_handshake(broker: Broker, request: Any, context: Context) -> Response:
    login = context.connection.login
    if login is None or not login.may_begin():
        return {"error_code": ErrorCode.illegal_sasl_state, "mechanisms": ()}
    if login.begin(request.mechanism, bare=context.api_version == 0):
        return {"mechanisms": login.mechanisms}
    context.connection.close_after_answer = True
    return {
        "error_code": ErrorCode.unsupported_sasl_mechanism,
        "mechanisms": login.mechanisms,
    }


API = Api(17, "SaslHandshake", (0, 1), sasl_handshake)
