"""Where compiled code is kept between processes. Imported before anything that numba compiles.

numba keeps machine code beside the source, which an installed package may not be able to write, or in a
folder named here. The first of these that can be written is taken: `HEADWATER_CACHE_DIR`, the user's
cache folder, a folder in the system's temporary one that belongs to this user alone. What is in it was
compiled here: nobody else may be able to put code there.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


def _candidates() -> Iterator[Path]:
    chosen = os.environ.get("HEADWATER_CACHE_DIR")
    if chosen:
        yield Path(chosen) / "compiled"
    home = os.environ.get("XDG_CACHE_HOME")
    if home:
        yield Path(home) / "headwater" / "compiled"
    else:
        try:
            yield Path.home() / ".cache" / "headwater" / "compiled"
        except RuntimeError:  # no home: a container's anonymous user
            pass
    yield Path(tempfile.gettempdir()) / f"headwater-compiled-{os.getuid()}"


def cache_folder() -> Path:
    """The first candidate that is ours and can be written."""
    for folder in _candidates():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            about = folder.stat()
        except OSError:
            continue
        is_ours = about.st_uid == os.getuid() and not about.st_mode & stat.S_IWOTH
        if is_ours and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return Path(tempfile.mkdtemp(prefix="headwater-compiled-"))


if "NUMBA_CACHE_DIR" not in os.environ:
    os.environ["NUMBA_CACHE_DIR"] = str(cache_folder())
    if "numba" in sys.modules:  # somebody was here before: a UDF, another library
        sys.modules["numba"].config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"]
