"""What share groups need of the broker, and nothing more: `ShareCoordinator` is given one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from headwater.broker.catalogue import Catalogue
from headwater.broker.clock import Clock
from headwater.broker.memory import MemoryBudget
from headwater.broker.settings import Settings
from headwater.broker.state_budget import StateBudget
from headwater.broker.supervisor import Supervisor
from headwater.broker.topics import Topics
from headwater.log.store import LogStore


@dataclass(frozen=True, slots=True)
class Node:
    """What share groups need of the broker."""

    settings: Settings
    clock: Clock
    supervisor: Supervisor
    catalogue: Catalogue
    topics: Topics
    store: LogStore
    memory: MemoryBudget
    state: StateBudget
    readers: Executor
    """Threads for what is read; they may be busy for long."""
    duties: Executor
    """Threads for what must not wait for them."""
    is_other_group: Callable[[str], bool]
    """Whether a group of another kind has this id."""
    is_stopping: Callable[[], bool]
