"""Which permission each part of each API needs: one rule per API, in front of its handler.

Only where an authorizer is on, `guarded` puts the rules between the connection and the handlers, which
know nothing of them. A rule gets the request, asks (`Asker`), and

- hands it on as it is, where everything in it is allowed (the usual case),
- hands on the allowed part, and adds the refused part to the answer with Kafka's error,
- or answers itself, where the whole of it is refused.

An API without a rule is refused to everybody: a new one must be thought about first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.broker.registry import Api, Context, Handler, Later, Response
from headwater.broker.security.authorizer import Authorizer
from headwater.broker.security.rules import (
    cluster,
    configs,
    groups,
    records,
    shares,
    streams,
    topics,
    transactions,
)
from headwater.broker.security.rules.permission import Asker, Rule

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


RULES: Mapping[int, Rule] = {
    **cluster.RULES,
    **configs.RULES,
    **groups.RULES,
    **records.RULES,
    **shares.RULES,
    **streams.RULES,
    **topics.RULES,
    **transactions.RULES,
}


def guarded(apis: Mapping[int, Api], authorizer: Authorizer) -> dict[int, Api]:
    """The same APIs, each behind its rule."""
    return {key: replace(api, handle=_guarded(api, authorizer)) for key, api in apis.items()}


def _guarded(api: Api, authorizer: Authorizer) -> Handler:
    rule = RULES.get(api.key)
    inner = api.handle

    def handle(
        broker: Broker, request: Any, context: Context
    ) -> Response | Later | Awaitable[Response]:
        if rule is None:
            context.connection.fail(f"no rule says who may use {api.name}, so nobody may")
            return {}
        if request is None:  # a version that we do not know: the handler says so
            return inner(broker, request, context)
        return rule(Asker(authorizer, broker, context), request, inner)

    return handle
