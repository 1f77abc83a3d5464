"""Bridges between topics and other systems, as `[edges.bridges.NAME]` names them.

contract   what a bridge is: `Inbound`, `Outbound`, for ours and for other people's
addresses  host, login and path of an address; pure
config     a section of headwater.toml, checked, and the class that its address means
runner     what runs, with inbound, reader and letters (dead ones)
zeromq, mqtt, amqp   three other worlds; UDP and multicast are in `edges.udp` and `edges.multicast`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.edges.bridges.config import check

if TYPE_CHECKING:
    from headwater.edges.context import Context
    from headwater.edges.services import Service

__all__ = ["check", "services"]


def services(context: Context) -> list[Service]:
    """One for each section."""
    from headwater.edges.bridges import runner

    return runner.services(context)
