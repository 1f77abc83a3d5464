"""Where a repair puts what it takes out: nothing is deleted, and a report says what was done.

    DIR/set-aside/20260131-120000/report.jsonl     one line for each step, written before the step is taken
    DIR/set-aside/20260131-120000/orders-0/…       files as they were, under their own names

`surgery` uses it. The broker leaves this folder alone; delete it when nothing in it is wanted any more.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwater.errors import HeadwaterError
from headwater.log.copies import ASIDE
from headwater.log.files import Files, FileSystem
from headwater.record.varint import Buffer

REPORT = "report.jsonl"


class CannotNote(HeadwaterError):
    """The report cannot be written, so no further step may be taken."""


class Aside:
    """One repair's own folder; made with the first thing that goes there."""

    def __init__(self, root: Path, files: FileSystem | None = None) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        self._root = root
        self.path = root / ASIDE / stamp
        number = 1
        while self.path.exists():
            number += 1
            self.path = root / ASIDE / f"{stamp}-{number}"
        self._files = files or Files()

    def move(self, path: Path) -> None:
        """Out of its place, durably; nothing happens if it is not there (any more)."""
        if not os.path.lexists(path):
            return
        target = self._target(path)
        self._files.rename(path, target)
        self._files.sync_dir(target.parent)
        self._files.sync_dir(path.parent)

    def keep(self, path: Path) -> None:
        """A copy of a file that is about to be replaced; by a second name where that can be had."""
        if not path.exists():
            return
        target = self._target(path)
        try:
            os.link(path, target)
        except OSError:
            shutil.copy2(path, target)
            with target.open("rb") as file:
                os.fsync(file.fileno())
        self._files.sync_dir(target.parent)

    def save(self, path: Path, suffix: str, pieces: Iterable[Buffer]) -> None:
        """Bytes that are cut out of a file, however many: one piece at a time."""
        target = self._target(path.with_name(path.name + suffix))
        with target.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        self._files.sync_dir(target.parent)

    def _target(self, path: Path) -> Path:
        target = self.path / path.relative_to(self._root)
        self._make(target.parent)
        number = 1
        while os.path.lexists(target):
            number += 1
            target = target.with_name(f"{path.name}.{number}")
        return target

    def _make(self, directory: Path) -> None:
        missing = []
        while not directory.exists():
            missing.append(directory)
            directory = directory.parent
        for each in reversed(missing):
            each.mkdir()
            self._files.sync_dir(each.parent)

    def note(self, entry: dict[str, Any]) -> None:
        """A line of the report, durable when this returns. Raises CannotNote."""
        path = self.path / REPORT
        try:
            self._make(self.path)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
                file.flush()
                os.fsync(file.fileno())
            self._files.sync_dir(self.path)
        except OSError as error:
            raise CannotNote(
                f"The repair stopped: its report {path} cannot be written ({error.strerror or error}).",
                hint="What it has done until now stands. Make room for it and run it again: it goes on.",
            ) from error
