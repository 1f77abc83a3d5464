"""The folders of a view's versions, and which of them readers see: for stores that are folders.

    PATH/headwater_views     whose folder this is: {"view": NAME, "store": "delta"}
    PATH/v1, PATH/v2         one store each
    PATH/current             a symbolic link to one of them, replaced in one step

Called by the targets for Delta Lake and for search. Readers open PATH/current.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from pathlib import Path

from headwater import atomic_file
from headwater.views.targets.contract import Misfit, Shape

CURRENT = "current"
OWNER = "headwater_views"
FILES_OF_SPARK = "_spark_metadata"
"""In a folder that Spark itself writes files to: a view with `to="parquet:PATH"`."""
_VERSION = re.compile(r"v([1-9]\d*)")


class VersionFolders:
    """All versions of one view."""

    def __init__(self, path: Path, shape: Shape, store: str) -> None:
        self.path = path.absolute()
        self._store = store
        self._view = shape.view
        self._version = shape.version

    @property
    def mine(self) -> Path:
        return self.path / f"v{self._version}"

    @property
    def staging(self) -> Path:
        """Beside the versions, and on the same disk."""
        return self.path / "staging"

    def own(self) -> None:
        """Make the folder this view's; `Misfit` where it is another's, or inside another's."""
        must_be_outside(self.path)
        atomic_file.make_folder(self.path)
        note = self.path / OWNER
        if not note.exists():
            if any(self.path.iterdir()):
                raise Misfit(f"{self.path} has files that are not a view's")
            said = {"view": self._view, "store": self._store}
            atomic_file.write(note, json.dumps(said) + "\n")
        owner = json.loads(note.read_text(encoding="utf-8"))
        # A note of an earlier version does not say which store it is.
        if (owner["view"], owner.get("store", self._store)) != (self._view, self._store):
            store = owner.get("store", self._store)
            raise Misfit(
                f"{self.path} holds the view {owner['view']!r} ({store}:), not {self._view!r} "
                f"({self._store}:)",
                hint="a view has a folder of its own",
            )

    def versions(self) -> list[int]:
        if not self.path.is_dir():
            return []
        found = (_VERSION.fullmatch(each.name) for each in self.path.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def current(self) -> int | None:
        try:
            match = _VERSION.fullmatch((self.path / CURRENT).readlink().name)
        except FileNotFoundError:
            return None
        return int(match[1]) if match else None

    def show_first(self) -> None:
        """Let readers see this version if they see none."""
        if self.current() is None:
            self.show()

    def show(self) -> None:
        fresh = self.path / f".{CURRENT}-{uuid.uuid4().hex}"
        fresh.symlink_to(self.mine.name)
        atomic_file.rename(fresh, self.path / CURRENT)

    def drop(self) -> None:
        if self.current() == self._version:
            raise Misfit(f"readers see version {self._version} of {self._view}")
        shutil.rmtree(self.mine, ignore_errors=True)

    def absent(self) -> Misfit:
        """What to raise where this version is not there."""
        return Misfit(f"{self.path} has no version {self._version} of the view {self._view!r}")


def must_be_outside(path: Path) -> None:
    """Misfit where a folder above this one is a view's; links are followed."""
    for above in path.resolve().parents:
        if (above / OWNER).is_file() or (above / FILES_OF_SPARK).is_dir():
            raise Misfit(
                f"{path} lies in {above}, which is the folder of another view",
                hint="a view has a folder of its own",
            )


def sync(path: Path) -> None:
    """A file, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
