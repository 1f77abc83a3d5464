"""The public test kit: a broker for tests, a clock to turn by hand, a disk that can fail.

`headwater.testing.apache_kafka`, a module of its own, starts a real Apache Kafka to compare with.
May import everything; nothing in headwater imports it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.testing.clock import ManualClock as ManualClock
    from headwater.testing.embedded import broker as broker
    from headwater.testing.faulty_disk import FaultyDisk as FaultyDisk

__all__ = ["FaultyDisk", "ManualClock", "broker"]

_HOME = {
    "FaultyDisk": "faulty_disk",
    "ManualClock": "clock",
    "broker": "embedded",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'headwater.testing' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"headwater.testing.{_HOME[name]}"), name)
    return value
