"""What can be wrong with a view over tables, each as one sentence."""

from __future__ import annotations

from headwater.errors import HeadwaterError


class NotByRow(HeadwaterError):
    """The query cannot be kept current row by row; recomputing it as a whole is still possible."""
