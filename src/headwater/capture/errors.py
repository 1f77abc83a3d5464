"""What capture tells people; raised by sources, writer and runner, printed by the command line.

What can be wrong with a binary log, beyond what every source knows (`capture.errors`).
"""

from __future__ import annotations

from headwater.deprecation import renamed
from headwater.errors import HeadwaterError

__getattr__ = renamed(__name__, {"Refused": "SourceRefused", "Fenced": "CaptureFenced"})


class CaptureError(HeadwaterError):
    """Nothing that trying again would mend; the hint says what would."""


class Misconfigured(CaptureError):
    """The capture's own settings do not make sense."""


class SourceRefused(CaptureError):
    """The database does not allow what is needed (see `headwater capture check`)."""


class TableAltered(CaptureError):
    """A table or a column that was read about is not there any more: somebody has altered the table since."""


class LogRefused(CaptureError):
    """The log does not take a batch, now or later: too large, or against the topic's settings."""


class Gap(CaptureError):
    """The database no longer has the changes that come next: going on would leave a silent gap."""


class StartOver(Gap):
    """A gap after which the settings ask for a new snapshot instead of a stop."""


class CaptureFenced(CaptureError):
    """Another run of the same capture has taken over."""


class Interrupted(HeadwaterError):
    """The database or the log went away for now; the runner tries again from the stored position."""


class WriterExpired(Interrupted):
    """The log takes no more of this writer: the machine slept for longer than a transaction may last, or
    another run begins. A new writer finds out which."""


class BinlogUnreadable(CaptureError):
    """Bytes that are no binlog event, or an event that cannot be turned into rows faithfully."""


class SchemaUnknown(CaptureError):
    """The table's columns at that moment are not known, so its rows cannot be named."""
