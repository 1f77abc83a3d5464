"""How long a failed query waits before it is tried again; pure.

One second after the first failure, twice as long after each further one, a minute at most. A query that
has then finished a batch, and has run for as long as it would have waited next and at least ten seconds,
has recovered. Time alone says nothing: the batch that fails may take a while to do so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FIRST_S, MOST_S, CALM_S = 1.0, 60.0, 10.0


@dataclass(frozen=True)
class Backoff:
    failures: int = 0

    def failed(self, ran_s: float, *, batches: int) -> Backoff:
        """After a failure of a query that had run for `ran_s` and finished so many batches."""
        calm = batches > 0 and ran_s >= max(CALM_S, self.after(self.failures + 1))
        return replace(self, failures=1 if calm else self.failures + 1)

    @property
    def wait_s(self) -> float:
        """How long to wait now."""
        return self.after(self.failures)

    @staticmethod
    def after(failures: int) -> float:
        return min(MOST_S, FIRST_S * 2 ** min(failures - 1, 10)) if failures > 0 else 0.0
