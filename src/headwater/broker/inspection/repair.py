"""Mending a data folder: look, mend, look again, until nothing is left that can be mended.

`headwater repair` calls it. Some things can only be seen once others are mended, so there are rounds; and
since every round begins by looking, one that was interrupted is simply taken up again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwater.broker.inspection.aside import Aside
from headwater.broker.inspection.check import Progress, Report, inspect
from headwater.broker.inspection.remedy import Remedy
from headwater.broker.inspection.surgery import Failure, Surgeon
from headwater.log.files import FileSystem

ROUNDS_MAX = 6


@dataclass(slots=True)
class Outcome:
    """What a repair found, did, and left."""

    before: Report
    after: Report
    aside: Path | None = None
    """Where everything is that was replaced or taken out; None: nothing was changed."""
    done: list[Remedy] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.before.root),
            "changed": self.aside is not None,
            "set_aside": None if self.aside is None else str(self.aside),
            "right": not self.after.wrong,
            "done": [each.says for each in self.done],
            "failed": [{"step": each.remedy.says, "why": each.why} for each in self.failed],
            "before": [each.as_json() for each in self.before.findings],
            "after": [each.as_json() for each in self.after.findings],
        }


def remedies(report: Report) -> list[Remedy]:
    return [each.remedy for each in report.findings if each.remedy is not None]


def repair(
    root: Path,
    *,
    quick: bool = False,
    progress: Progress = lambda *_: None,
    files: FileSystem | None = None,
) -> Outcome:
    """Mend what can be mended. The caller holds the folder's lock. Raises CannotLook, CannotNote."""
    before = inspect(root, quick=quick, progress=progress)
    outcome = Outcome(before, before)
    if before.is_kafkas or not remedies(before):
        return outcome
    aside = Aside(root, files)
    outcome.aside = aside.path
    for finding in before.findings:
        aside.note({"found": finding.as_json()})
    for _ in range(ROUNDS_MAX):
        todo = remedies(outcome.after)
        surgeon = Surgeon(root, aside, int(time.time() * 1000), files)
        surgeon.carry_out(todo)
        outcome.done += surgeon.done
        outcome.failed += surgeon.failed
        outcome.after = inspect(root, quick=quick, progress=progress)
        if not remedies(outcome.after) or not surgeon.done:
            break
    for finding in outcome.after.findings:
        aside.note({"left": finding.as_json()})
    return outcome
