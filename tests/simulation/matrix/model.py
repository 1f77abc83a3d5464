"""What clients know: each record, transaction, commit and topic that was asked for, and what was answered.

`client` writes it down while it asks; `oracle` compares it with what the broker serves. A fact without
an answer (the power went) is doubtful: it may be so or not, but from the first look on it is settled.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from enum import Enum


class Fate(Enum):
    DOUBTFUL = "in doubt"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"


@dataclass(eq=False)
class Transaction:
    """One transaction; `end` is what was asked for, `fate` what was answered to that."""

    name: str
    number: int
    sent: list[Sent] = field(default_factory=list)
    offset: int | None = None
    """What it commits for its group, if that was acknowledged."""
    end: str = "none"
    fate: Fate = Fate.DOUBTFUL
    is_v1: bool = False
    is_forgotten: bool = False
    """A power cut may have taken any of it, its end as well: it may be committed, and nothing says so."""

    @property
    def may_be_committed(self) -> bool:
        return self.end == "commit"

    @property
    def is_committed(self) -> bool:
        return self.may_be_committed and self.fate is Fate.ACKNOWLEDGED and not self.is_forgotten

    def __str__(self) -> str:
        end = "forgotten" if self.is_forgotten else self.end
        return f"transaction {self.number} of {self.name} ({end}, {self.fate.value})"


@dataclass(eq=False)
class Sent:
    """One record. Its timestamp is its own: no other record of this world has it."""

    topic: Topic
    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    transaction: Transaction | None = None
    fate: Fate = Fate.DOUBTFUL
    offset: int = -1
    retried: bool = False

    def __str__(self) -> str:
        what = f"{self.topic.name}-{self.partition} key {self.key!r} of {self.timestamp}"
        where = f" at {self.offset}" if self.offset >= 0 else ""
        return f"{what}{where} ({self.fate.value}{f', {self.transaction}' if self.transaction else ''})"


@dataclass(eq=False)
class Topic:
    """A topic, from its creation to its deletion; created again it is another one."""

    name: str
    partitions: int
    configs: dict[str, str]
    id: uuid.UUID | None = None
    made: Fate = Fate.DOUBTFUL
    deleted: Fate | None = None
    """None: nobody has asked for it."""
    other_configs: list[dict[str, str]] = field(default_factory=list)
    """Asked for and not answered: may have come true."""
    earlier_configs: list[tuple[dict[str, str], int]] = field(default_factory=list)
    """What it had before, each with the timestamp of the last record that was sent until then."""
    sent: dict[int, Sent] = field(default_factory=dict)
    """By timestamp."""
    start: dict[int, int] = field(default_factory=dict)
    """Partition → start offset that DeleteRecords has acknowledged."""
    start_asked: dict[int, int] = field(default_factory=dict)
    excised: dict[bytes, Fate] = field(default_factory=dict)
    seen: dict[tuple[int, int], int] = field(default_factory=dict)
    """(partition, offset) → timestamp of the record that a reader saw there."""
    end_seen: dict[int, int] = field(default_factory=dict)
    """Partition → the highest high watermark that a reader saw."""

    def _configs_since(self, timestamp: int) -> list[dict[str, str]]:
        """All that may have been in force since then."""
        earlier = [configs for configs, until in self.earlier_configs if until >= timestamp]
        return [self.configs, *self.other_configs, *earlier]

    def may_compact(self, timestamp: int = 0) -> bool:
        """Whether what was sent then may have been compacted."""
        return any("compact" in _policy(each) for each in self._configs_since(timestamp))

    def retention_ms(self, timestamp: int) -> int:
        """The shortest that it may have had since then; -1: nothing goes because it is old."""
        found = [
            int(each.get("retention.ms", "-1"))
            for each in self._configs_since(timestamp)
            if "delete" in _policy(each)
        ]
        return min([each for each in found if each >= 0], default=-1)


def _policy(configs: dict[str, str]) -> str:
    return configs.get("cleanup.policy", "delete")


@dataclass
class Commits:
    """Of one group and partition: the last acknowledged offset, and those asked for since."""

    sure: int = -1
    doubtful: list[int] = field(default_factory=list)
    history: list[int] = field(default_factory=lambda: [-1])
    """All that were ever asked for."""

    def ask(self, offset: int) -> None:
        self.doubtful.append(offset)
        self.history.append(offset)


@dataclass
class Settled:
    """Of one share group: offsets accepted for sure, and asked for without an answer."""

    sure: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)


@dataclass
class Model:
    topics: list[Topic] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    commits: dict[tuple[str, str, int], Commits] = field(default_factory=dict)
    settled: dict[tuple[str, str, int], Settled] = field(default_factory=dict)
    producers: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Transactional id → the last producer id and epoch that were given out."""
    excisions: dict[str, tuple[Topic, bytes]] = field(default_factory=dict)
    """Id of each acknowledged request → what was to be excised."""
    last_timestamp: int = 0

    def topic(self, name: str) -> Topic:
        """The newest of that name."""
        return next(topic for topic in reversed(self.topics) if topic.name == name)

    def has(self, name: str) -> bool:
        found = [topic for topic in self.topics if topic.name == name]
        return bool(found) and found[-1].made is Fate.ACKNOWLEDGED and found[-1].deleted is None
