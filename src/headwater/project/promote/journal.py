"""What a move has begun, in one small file of the project: so another run knows which topics are its own.

    data/promote.json   {"cluster_id": of Kafka, "topics": {name: {"old": topic id, "new": topic id}}}

It is removed when the move is complete.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from headwater.log import atomic_file

FILE = Path("data") / "promote.json"


@dataclass
class Journal:
    """The topics that were made in Kafka, by the ids they had and have."""

    path: Path
    cluster_id: str = ""
    topics: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> Journal:
        path = folder / FILE
        try:
            said = json.loads(path.read_text())
            return cls(path, said["cluster_id"], said["topics"])
        except FileNotFoundError:
            return cls(path)

    def owns(self, name: str, topic_id: str) -> bool:
        return self.topics.get(name, {}).get("new") == topic_id

    def save(self) -> None:
        atomic_file.make_folder(self.path.parent)
        said = {"cluster_id": self.cluster_id, "topics": self.topics}
        atomic_file.write(self.path, json.dumps(said) + "\n")

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
