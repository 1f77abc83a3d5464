"""What capture tells people; raised by sources, writer and runner, printed by the command line."""

from __future__ import annotations

from headwater.errors import HeadwaterError


class CaptureError(HeadwaterError):
    """Nothing that trying again would mend; the hint says what would."""


class Misconfigured(CaptureError):
    """The capture's own settings do not make sense."""


class Refused(CaptureError):
    """The database does not allow what is needed (see `headwater capture check`)."""


class Gap(CaptureError):
    """The database no longer has the changes that come next: going on would leave a silent gap."""


class StartOver(Gap):
    """A gap after which the settings ask for a new snapshot instead of a stop."""


class Fenced(CaptureError):
    """Another run of the same capture has taken over."""


class Interrupted(HeadwaterError):
    """The database or the log went away for now; the runner tries again from the stored position."""
