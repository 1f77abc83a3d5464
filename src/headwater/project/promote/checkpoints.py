"""Spark's checkpoints name topics by id as well, to notice one that was deleted and made again.

The copies in Kafka have new ids, and the same offsets. So each id is replaced in the positions that queries
have written down (`spark.source.position`), and nothing else is touched. Done again, it changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from headwater.log import atomic_file
from headwater.project.promote.errors import CannotPromote

_NOTE = "headwater.json"


def require_finished(root: Path) -> None:
    """CannotPromote if a query that writes to a topic has a batch at hand.

    Who finishes it looks for its records by the ids of producers, which are others in Kafka.
    """
    for folder in _queries(root):
        note = json.loads((folder / _NOTE).read_text())
        if str(note.get("to", "")).startswith("topic:") and _last(folder, "offsets") != _last(
            folder, "commits"
        ):
            raise CannotPromote(
                f"the query {folder.name} has a batch at hand that is not finished",
                hint="start the project and stop it with Ctrl-C: headwater up",
            )


def rename_topics(root: Path, ids: Mapping[str, str]) -> int:
    """Put new ids in the place of old ones; how many queries were touched."""
    touched = 0
    for folder in _queries(root):
        batches = [path for path in sorted((folder / "offsets").iterdir()) if path.name.isdigit()]
        changed = [_rename(path, ids) for path in batches]
        touched += any(changed)
    return touched


def _rename(path: Path, ids: Mapping[str, str]) -> bool:
    before = text = path.read_text(encoding="utf-8")
    for old, new in ids.items():
        text = text.replace(old, new)
    if text == before:
        return False
    # The checksum beside it is of the old text; where there is none, Hadoop asks for none.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    atomic_file.write(path, text)
    return True


def _queries(root: Path) -> Iterator[Path]:
    for note in sorted(root.glob(f"*/{_NOTE}")):
        if (note.parent / "offsets").is_dir():
            yield note.parent


def _last(folder: Path, kind: str) -> int:
    numbers = [int(path.name) for path in (folder / kind).glob("[0-9]*") if path.name.isdigit()]
    return max(numbers, default=-1)
