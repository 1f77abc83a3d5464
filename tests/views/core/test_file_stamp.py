"""What a store in files said is remembered for as long as nobody writes to them."""

from __future__ import annotations

import os
from pathlib import Path

from headwater.views.targets.file_stamp import SETTLED_NS, LastSeen

WRITTEN_NS = 1_700_000_000_000_000_000


def written(path: Path, text: str, at_ns: int = WRITTEN_NS) -> None:
    path.write_text(text)
    os.utime(path, ns=(at_ns, at_ns))


class Store:
    """Counts how often it is opened."""

    def __init__(self, path: Path) -> None:
        self.path, self.asked = path, 0

    def ask(self) -> str:
        self.asked += 1
        return self.path.read_text() if self.path.exists() else "nothing"


def test_a_store_is_asked_again_only_after_its_files_were_written_to(tmp_path: Path):
    store = Store(tmp_path / "db")
    log = tmp_path / "db.wal"
    seen: LastSeen[str] = LastSeen(lambda: WRITTEN_NS + 10 * SETTLED_NS)
    files = [store.path, log]
    assert [seen.get("v", files, store.ask) for _ in range(2)] == ["nothing"] * 2
    assert store.asked == 2  # a file that is not there says nothing of what is
    written(store.path, "one")
    assert [seen.get("v", files, store.ask) for _ in range(3)] == ["one"] * 3
    assert store.asked == 3
    written(store.path, "two", WRITTEN_NS + 1)
    assert seen.get("v", files, store.ask) == "two"
    written(log, "more")
    assert (seen.get("v", files, store.ask), store.asked) == ("two", 5)
    assert (seen.get("another", files, store.ask), store.asked) == ("two", 6)


def test_a_file_that_was_just_written_is_not_trusted_to_stay(tmp_path: Path):
    """Another write in the same tick of the clock would leave the same time, and perhaps the same size."""
    store = Store(tmp_path / "db")
    seen: LastSeen[str] = LastSeen(lambda: WRITTEN_NS + SETTLED_NS)
    written(store.path, "one")
    assert seen.get("v", [store.path], store.ask) == "one"
    written(store.path, "two")
    assert seen.get("v", [store.path], store.ask) == "two"
