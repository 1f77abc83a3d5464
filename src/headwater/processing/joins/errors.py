"""What can be wrong with a join, as one sentence each."""

from __future__ import annotations

from headwater.errors import HeadwaterError


class BadJoin(HeadwaterError):
    """A join that cannot mean what was written; shown before the query starts."""
