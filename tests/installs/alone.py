"""Import modules as if only headwater with some extras were installed: `python alone.py EXTRAS MODULE...`.

Every other distribution of this environment is hidden. Prints one line for each module that cannot be
imported, with the package that it lacks.
"""

from __future__ import annotations

import importlib
import importlib.abc
import sys
from collections.abc import Sequence
from importlib import metadata
from types import ModuleType

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def needed(extras: Sequence[str]) -> set[str]:
    """The distributions that `pip install headwater[EXTRAS]` brings."""
    found: set[tuple[str, str]] = set()
    open_ = [("headwater", extra) for extra in ["", *extras]]
    while open_:
        name, extra = open_.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # of another system or Python
        for text in requires:
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                each = canonicalize_name(wanted.name)
                open_ += [(each, ""), *((each, more) for more in wanted.extras)]
    return {name for name, _ in found}


class Hidden(importlib.abc.MetaPathFinder):
    """Packages of distributions that would not be there."""

    def __init__(self, allowed: set[str]) -> None:
        self.names = {
            package
            for package, owners in metadata.packages_distributions().items()
            if not any(canonicalize_name(owner) in allowed for owner in owners)
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if name.split(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.split(".")[0])


def main(extras: Sequence[str], modules: Sequence[str]) -> int:
    hidden = Hidden(needed(extras))
    for name in [each for each in sys.modules if each.split(".")[0] in hidden.names]:
        del sys.modules[name]
    sys.meta_path.insert(0, hidden)
    failed = 0
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            failed += 1
            print(f"{module}: {error.name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main([each for each in sys.argv[1].split(",") if each], sys.argv[2:]))
