"""What can keep a project from being moved."""

from __future__ import annotations

from headwater.errors import HeadwaterError


class CannotPromote(HeadwaterError):
    """It was refused, or stopped; nothing of the project has been changed."""


class Diverged(HeadwaterError):
    """What is in the new partition is not what the old one has: it must be begun afresh."""
