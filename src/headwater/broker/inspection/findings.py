"""What an inspection says: one `Finding` for each thing that is not as it should be.

Made by every file of this package, shown by `headwater check`, acted on by `repair`.

    loss      records that were acknowledged are not there, and nothing in the folder brings them back
    damage    something is wrong that readers meet, or will meet after the next start
    nuisance  something is wrong that costs time or space, or harms somebody who asks for it only
    note      as it should be after a crash; said so that nobody is surprised
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headwater.broker.inspection.remedy import Remedy


class Severity(StrEnum):
    """How bad it is, worst first."""

    LOSS = "loss"
    DAMAGE = "damage"
    NUISANCE = "nuisance"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found: where, what is wrong, what readers notice of it, what would mend it."""

    kind: str
    """A short name that stays the same, for scripts."""
    severity: Severity
    where: str
    """Path within the folder."""
    what: str
    means: str
    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    remedy: Remedy | None = None

    @property
    def is_wrong(self) -> bool:
        return self.severity is not Severity.NOTE

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "severity": str(self.severity),
            "where": self.where,
            "what": self.what,
            "means": self.means,
            "topic": self.topic,
            "partition": self.partition,
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
            "repair": None if self.remedy is None else self.remedy.says,
        }
