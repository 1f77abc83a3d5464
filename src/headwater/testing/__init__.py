"""The public test kit: a broker for tests, a manual clock, a disk that can fail.

`headwater.testing.apache_kafka`, a module of its own, starts a real Apache Kafka to compare with.
May import everything; nothing in headwater imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.lazy_names import lazy_names

if TYPE_CHECKING:
    from headwater.testing.bridges import InboundConformance as InboundConformance
    from headwater.testing.bridges import OutboundConformance as OutboundConformance
    from headwater.testing.bridges import bridge_end as bridge_end
    from headwater.testing.clock import ManualClock as ManualClock
    from headwater.testing.embedded_broker import broker as broker
    from headwater.testing.faulty_disk import FaultyDisk as FaultyDisk
    from headwater.testing.rehearsal import Rehearsal as Rehearsal
    from headwater.testing.target_columns import WideningConformance as WideningConformance
    from headwater.testing.targets import TargetConformance as TargetConformance

_HOME = {
    "FaultyDisk": "headwater.testing.faulty_disk",
    "InboundConformance": "headwater.testing.bridges",
    "ManualClock": "headwater.testing.clock",
    "OutboundConformance": "headwater.testing.bridges",
    "Rehearsal": "headwater.testing.rehearsal",
    "TargetConformance": "headwater.testing.targets",
    "WideningConformance": "headwater.testing.target_columns",
    "bridge_end": "headwater.testing.bridges",
    "broker": "headwater.testing.embedded_broker",
}

__all__ = [
    "FaultyDisk",
    "InboundConformance",
    "ManualClock",
    "OutboundConformance",
    "Rehearsal",
    "TargetConformance",
    "WideningConformance",
    "bridge_end",
    "broker",
]

__getattr__, __dir__ = lazy_names(__name__, _HOME)
