"""Whether an address is a place on this machine's file system: the one way to tell, for every ring.

data/x, /mnt/shared/x, file:/x, C:/x      local: a path, which other machines may see as well or not
hdfs://…, s3a://…, abfss://…, dbfs:/x     remote: by a client of Spark's, or not at all
"""

from __future__ import annotations

import re
from pathlib import Path

# A scheme of one letter is a drive.
_REMOTE = re.compile(r"^(?!file:)[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
_OF_PATTERNS = re.compile(r"([\\{}\[\]*?])")


def local_path(address: str) -> Path | None:
    """The path of an address that is on this machine; None of one that is elsewhere."""
    if _REMOTE.match(address):
        return None
    return Path(re.sub(r"^file:/+", "/", address, flags=re.IGNORECASE)).resolve()


def for_spark(address: str | Path) -> str:
    """An address for Spark's readers of files, which take it for a pattern; `%40` they leave as it is."""
    whole = f"file:{address.absolute()}" if isinstance(address, Path) else address
    return _OF_PATTERNS.sub(r"\\\1", whole)
