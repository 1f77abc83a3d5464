"""Names that have moved: the old one works for one release, with a warning that says the new one.

__getattr__ = moved(__name__, "headwater.processing.request_reply")   # all of a module
__getattr__ = renamed(__name__, {"Fenced": "CaptureFenced"})          # some of its names
OLD = {"Running": "BlockingApplication"}                              # of a package, see `lazy_names`
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module


def warn(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Said once per place that uses it, by Python's own rule for warnings."""
    text = f"{old} is now {new}; the old name goes with the next release"
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel)


def show_warnings() -> None:
    """In a command: Python hides these warnings outside of a program's main file, so in pipeline files."""
    if not sys.warnoptions:
        warnings.filterwarnings("default", r"headwater\..* is now ", DeprecationWarning)


def moved(old: str, new: str, names: dict[str, str] | None = None) -> Callable[[str], object]:
    """A module's `__getattr__`: all of it is in another module now, some of it under other `names`."""

    def found(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        now = (names or {}).get(name, name)
        value = getattr(import_module(new), now)
        warn(f"{old}.{name}", f"{new}.{now}")
        return value

    return found


def renamed(module: str, names: dict[str, str]) -> Callable[[str], object]:
    """A module's `__getattr__`: these of its names are now called otherwise."""

    def found(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn(f"{module}.{name}", f"{module}.{names[name]}")
        return getattr(import_module(module), names[name])

    return found
