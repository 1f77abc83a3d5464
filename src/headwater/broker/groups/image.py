"""The topics that there are, as groups see them: handed in, so that this package knows no catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from uuid import UUID


class Topic(Protocol):
    @property
    def id(self) -> UUID: ...

    @property
    def partitions(self) -> int: ...


class Image(Protocol):
    """The broker's catalogue is one; `version` grows with every change."""

    @property
    def version(self) -> int: ...

    @property
    def topics(self) -> Mapping[str, Topic]: ...


class NoTopics:
    """An image without topics."""

    version = 0
    topics: Mapping[str, Topic] = {}
