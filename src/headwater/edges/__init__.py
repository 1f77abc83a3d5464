"""The edges: events in from anywhere, changes out to anyone.

One process, `headwater edges`, beside the log: HTTP in, webhooks in and out, devices by UDP, bridges to other
brokers, changefeeds, reads of views, alerts, metrics and traces.

    app     the HTTP interface: one router per file  services  what runs beside it
    guard   who may, from where, how much            appender  records into the log
    config  [edges] of headwater.toml                counts    what came, went and was refused
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.lazy_names import lazy_names

if TYPE_CHECKING:
    from headwater.client.records import Record as Record
    from headwater.edges.bridges.contract import Bridge as Bridge
    from headwater.edges.bridges.contract import BridgeBroken as BridgeBroken
    from headwater.edges.bridges.contract import End as End
    from headwater.edges.bridges.contract import Headers as Headers
    from headwater.edges.bridges.contract import Inbound as Inbound
    from headwater.edges.bridges.contract import Message as Message
    from headwater.edges.bridges.contract import Outbound as Outbound
    from headwater.edges.bridges.contract import Refusal as Refusal
    from headwater.edges.multicast.publisher import MulticastPublisher as MulticastPublisher

_HOME = {
    "Bridge": "headwater.edges.bridges.contract",
    "BridgeBroken": "headwater.edges.bridges.contract",
    "End": "headwater.edges.bridges.contract",
    "Headers": "headwater.edges.bridges.contract",
    "Inbound": "headwater.edges.bridges.contract",
    "Message": "headwater.edges.bridges.contract",
    "MulticastPublisher": "headwater.edges.multicast.publisher",
    "Outbound": "headwater.edges.bridges.contract",
    "Record": "headwater.client.records",
    "Refusal": "headwater.edges.bridges.contract",
}

__all__ = [
    "Bridge",
    "BridgeBroken",
    "End",
    "Headers",
    "Inbound",
    "Message",
    "MulticastPublisher",
    "Outbound",
    "Record",
    "Refusal",
]

__getattr__, __dir__ = lazy_names(__name__, _HOME)
