"""Time for owners and keys: milliseconds for records, and seconds that also pass while the machine sleeps.

`time.monotonic` stands still while a laptop's lid is closed or a virtual machine is suspended; the broker's
time does not, and a claim, or a key that was read, must count no longer than the broker remembers.
"""

from __future__ import annotations

import time

_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


def seconds() -> float:
    """Since the machine was started."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


def now_ms() -> int:
    """Wall-clock time."""
    return time.time_ns() // 1_000_000
