"""In which form the hot modules of this package run: compiled, or plain Python.

They are ordinary typed modules. Where there is a C compiler, `make setup` has mypyc make machine code of them
(`tools/compile.py`), and so has a wheel that was built with it; everywhere else the same files are
interpreted. The package finds the compiled ones, before its own files, in

    record/compiled/<fingerprint>/validate.cpython-311-x86_64-linux-gnu.so, …

The fingerprint is that of the sources they were made from, so code that has changed since is never run in its
old form; the suffix is that of the interpreter, so no other loads it. Both forms must accept and refuse the
same: `tests/record/test_forms.py`. HEADWATER_PLAIN=1 asks for the plain one.
"""

from __future__ import annotations

import os
from collections.abc import MutableSequence
from importlib import import_module
from importlib.util import source_hash
from pathlib import Path

MODULES = ("keys", "validate", "varint")
LIBRARY = "hot"
"""All of them are in one library, mypyc's group; each has a small one that points there."""

COMPILED = False
"""Set once, before the first of the modules is imported."""


def fingerprint(package: Path) -> str:
    """Of the sources as they are now."""
    sources = b"\0".join(package.joinpath(f"{name}.py").read_bytes() for name in MODULES)
    return source_hash(sources).hex()


def compiled_folder(package: Path) -> Path | None:
    """Where the compiled form of these very sources would be, if any was made."""
    compiled = package / "compiled"
    return compiled / fingerprint(package) if compiled.is_dir() else None


def choose(name: str, path: MutableSequence[str]) -> None:
    """For the package of this name: put the compiled form before the plain one on its path, if there is one
    that this interpreter can load."""
    global COMPILED
    folder = compiled_folder(Path(__file__).parent)
    if folder is None or not folder.is_dir() or os.environ.get("HEADWATER_PLAIN") == "1":
        return
    path.insert(0, str(folder))
    try:
        import_module(f"{name}.{LIBRARY}__mypyc")
    except ImportError:  # of another version of Python, or of another system
        path.remove(str(folder))
    else:
        COMPILED = True


def name() -> str:
    return "compiled" if COMPILED else "as plain Python"
