"""What can be wrong with a binary log, beyond what every source knows (`capture.errors`)."""

from __future__ import annotations

from headwater.capture.errors import CaptureError


class BinlogUnreadable(CaptureError):
    """Bytes that are no binlog event, or an event that cannot be turned into rows faithfully."""


class SchemaUnknown(CaptureError):
    """The table's columns at that moment are not known, so its rows cannot be named."""
