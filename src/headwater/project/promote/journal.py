"""What a move has begun, in one small file of the project: so another run knows which topics are its own.

    data/promote.json   {"cluster_id": of Kafka, "topics": {name: {"old": topic id, "new": topic id,
                         "former": ids that it had in Kafka before}}, "groups": [names]}

A run that was killed late has written the ids of its time into checkpoints: a topic that is then begun afresh
gets another, in the place of the first and of these.

It is removed when the move is complete. An import keeps its own (data/import.json), so that another run
brings what has come since; `complete` then says of a topic that it has once been the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from headwater import atomic_file

FILE = Path("data") / "promote.json"


@dataclass
class Journal:
    """The topics that were made in Kafka, by the ids they had and have."""

    path: Path
    cluster_id: str = ""
    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    """Those that may have got positions in Kafka."""

    @classmethod
    def of(cls, folder: Path, file: Path = FILE) -> Journal:
        path = folder / file
        try:
            said = json.loads(path.read_text())
            return cls(path, said["cluster_id"], said["topics"], said.get("groups", []))
        except FileNotFoundError:
            return cls(path)

    def owns(self, name: str, topic_id: str) -> bool:
        return self.topics.get(name, {}).get("new") == topic_id

    def begin(self, name: str, old: str) -> None:
        """Note, before a topic is made, that it is ours."""
        begun = self.topics.get(name, {})
        former = f"{begun.get('former', '')} {begun.get('new', '')}".strip()
        self.topics[name] = {"old": old, "new": "", "former": former}
        self.save()

    def renamed(self) -> dict[str, str]:
        """The id that each topic has now, for every id under which checkpoints may know it."""
        return {
            former: each["new"]
            for each in self.topics.values()
            for former in (each["old"], *each.get("former", "").split())
        }

    def finish(self, name: str) -> None:
        self.topics[name]["complete"] = "yes"
        self.save()

    def is_complete(self, name: str) -> bool:
        return "complete" in self.topics.get(name, {})

    def save(self) -> None:
        atomic_file.make_folder(self.path.parent)
        said = {"cluster_id": self.cluster_id, "topics": self.topics, "groups": self.groups}
        atomic_file.write(self.path, json.dumps(said) + "\n")

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
