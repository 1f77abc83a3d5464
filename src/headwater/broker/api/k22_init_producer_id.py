"""InitProducerId (key 22), versions 0–6: an id for an idempotent producer; KIP-98, KIP-360.

Ids are taken from durable blocks in the catalogue, so that none is given twice. A producer that knows
its id and epoch gets the next epoch; once epochs are used up it gets a new id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_REFUSED = {"producer_id": -1, "producer_epoch": -1}


async def init_producer_id(broker: Broker, request: Any, context: Context) -> Response:
    if request.transactional_id is not None:
        return {"error_code": ErrorCode.unsupported_version, **_REFUSED}
    return {"producer_id": await broker.catalogue.next_producer_id(), "producer_epoch": 0}


API = Api(22, "InitProducerId", (0, 6), init_producer_id)
