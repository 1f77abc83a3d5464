"""What can be wrong with a view over tables, each as one sentence."""

from __future__ import annotations

from headwater.errors import HeadwaterError


class NotByRow(HeadwaterError):
    """The query cannot be kept current row by row; recomputing it as a whole is still possible."""


class AmbiguousKey(HeadwaterError):
    """Two rows of a view have the same key."""


class StateAstray(HeadwaterError):
    """The state does not belong to this view, or is not where its target is."""
