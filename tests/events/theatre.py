"""The theatre of examples/seats, for tests: found by its path, as examples are no package."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "seats"))

from hall import (
    Charged,
    Held,
    Hold,
    Refunded,
    Released,
    Seat,
    Sold,
    apply_seat,
    confirming,
    paying,
    payments,
    seats,
)

__all__ = [
    "Charged",
    "Held",
    "Hold",
    "Refunded",
    "Released",
    "Seat",
    "Sold",
    "apply_seat",
    "confirming",
    "paying",
    "payments",
    "seats",
]
