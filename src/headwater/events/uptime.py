"""Seconds that also pass while the machine sleeps: for how long a claim, or a key that was read, may count.

`time.monotonic` stands still while a laptop's lid is closed or a virtual machine is suspended; the broker's
time does not.
"""

from __future__ import annotations

import time

_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


def seconds() -> float:
    """Since the machine was started."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)
