"""A package's public names, each loaded when it is first used: so that `import headwater` stays quick.

    _HOME = {"Reader": "headwater.events.history"}
    _OLD = {"Running": "BlockingApplication"}
    __all__ = [*_HOME]
    __getattr__, __dir__ = lazy_names(__name__, _HOME, old=_OLD)

By name and not by import: a package may offer what lies in a ring further out. A home that is the name itself
(`"joins": "headwater.processing.joins"`) is a module. For type checkers the package imports the same names
under TYPE_CHECKING; a test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

from headwater.deprecation import warn


def lazy_names(
    package: str, home: Mapping[str, str], *, old: Mapping[str, str] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of `package`; `old` maps names of an earlier release to those of today."""
    renamed = old or {}

    def found(name: str) -> object:
        if name in renamed:
            value = _loaded(package, renamed[name], home[renamed[name]])
            warn(f"{package}.{name}", f"{package}.{renamed[name]}")
            return value
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return _loaded(package, name, home[name])

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home})

    return found, names


def _loaded(package: str, name: str, home: str) -> object:
    module = import_module(home)
    value = module if home == f"{package}.{name}" else getattr(module, name)
    setattr(sys.modules[package], name, value)
    return value
