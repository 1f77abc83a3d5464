"""ListTransactions (key 66), versions 0–2: the transactional ids that the coordinator knows; KIP-664.

Filters by state (names that are no state are named in the answer), by producer id, by how long the
transaction has been open (1+, KIP-994) and by a regular expression for the whole id (2+, KIP-1152).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response, always
from headwater.broker.transactions.transaction import STATES, State, Transaction
from headwater.broker.turns import in_turns
from headwater.fair_queue import Busy
from headwater.regex import STEPS_AT_ONCE_MAX, BadRegex, Regex

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def list_transactions(broker: Broker, request: Any, context: Context) -> Response:
    coordinator = broker.transactions
    if coordinator.refusal is not ErrorCode.none:
        return {"error_code": coordinator.refusal}
    unknown = [name for name in request.state_filters if name not in STATES]
    if request.state_filters and len(unknown) == len(request.state_filters):
        return {"unknown_state_filters": unknown}
    wanted = _filter(request, broker.clock.now_ms())
    monotonic = broker.supervisor.monotonic
    known = in_turns(list(coordinator.transactions.values()), monotonic)
    found = [each async for each in known if wanted(each)]
    pattern = getattr(request, "transactional_id_pattern", None) or ""
    try:
        named = await _named(broker, pattern, [each.id for each in found], context.client_host)
    except BadRegex:
        return {"error_code": ErrorCode.invalid_regular_expression}
    except Busy:
        return {"error_code": ErrorCode.coordinator_load_in_progress}
    return {
        "unknown_state_filters": unknown,
        "transaction_states": [
            {
                "transactional_id": each.id,
                "producer_id": each.producer_id,
                "transaction_state": each.state.label,
            }
            async for each in in_turns(found, monotonic)
            if each.id in named
        ],
    }


async def _named(broker: Broker, pattern: str, ids: list[str], address: str) -> set[str]:
    if not pattern:
        return set(ids)
    regex = Regex(pattern)
    if regex.steps(ids) <= STEPS_AT_ONCE_MAX:
        return set(regex.matching(ids))
    matching = partial(regex.matching, ids)
    return set(await broker.expressions.run(address, lambda: matching) or ())


def _filter(request: Any, now_ms: int) -> Callable[[Transaction], bool]:
    states = {STATES[name] for name in request.state_filters if name in STATES}
    producers = set(request.producer_id_filters)
    duration_ms = getattr(request, "duration_filter", -1)

    def wanted(known: Transaction) -> bool:
        if known.state is State.DEAD or (states and known.state not in states):
            return False
        if producers and known.producer_id not in producers:
            return False
        is_short = known.start_ms < 0 or now_ms - known.start_ms <= duration_ms
        return not (duration_ms >= 0 and is_short)

    return wanted


API = Api(66, "ListTransactions", (0, 2), list_transactions, only_looks=True, lists=always)
