"""DescribeDelegationToken (key 41), versions 1 to 3: the tokens that there are; KIP-48.

There are no delegation tokens here: refused, as `delegation` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.broker.delegation import refused
from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: Broker, request: Any, context: Context) -> Response:
    return refused(context)


API = Api(41, "DescribeDelegationToken", (1, 3), handle)
