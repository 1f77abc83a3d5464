"""A bridge as other people write one: a cistern in this process, named by `module:Class` in the file.

It keeps what was not acknowledged, and gives it again to the next who opens it, as a queue does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from headwater.edges.bridges.contract import (
    BridgeBroken,
    End,
    Inbound,
    Message,
    Outbound,
    Record,
    Refusal,
)


@dataclass
class Cistern:
    """What the other system holds. `fails`: so many calls of `send` fail before one succeeds."""

    waiting: list[Message] = field(default_factory=list)
    acknowledged: list[Message] = field(default_factory=list)
    got: list[Record] = field(default_factory=list)
    opened: int = 0
    fails: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def pour(self, *messages: Message) -> None:
        with self.lock:
            self.waiting += messages


CISTERNS: dict[str, Cistern] = {}


class _Toy:
    OPTIONS: ClassVar[dict[str, Any]] = {"cistern": "", "batch": 100}
    end: End

    @classmethod
    def check(cls, end: End) -> list[str]:
        return [] if end.options["cistern"] in CISTERNS else ["there is no such cistern"]

    @property
    def cistern(self) -> Cistern:
        return CISTERNS[self.end.options["cistern"]]

    async def open(self) -> None:
        self.cistern.opened += 1

    def status(self) -> dict[str, Any]:
        return {"opened": self.cistern.opened}


class Tap(_Toy, Inbound):
    LOSES = "nothing while the process lives"
    REDELIVERS = True

    async def receive(self) -> Sequence[Message]:
        while True:
            with self.cistern.lock:
                if self.cistern.waiting:
                    return self.cistern.waiting[: self.end.options["batch"]]
            await asyncio.sleep(0.002)

    async def stored(self, messages: Sequence[Message]) -> None:
        with self.cistern.lock:
            assert self.cistern.waiting[: len(messages)] == list(messages)
            del self.cistern.waiting[: len(messages)]
            self.cistern.acknowledged += messages


class Drain(_Toy, Outbound):
    LOSES = "nothing while the process lives"
    CONFIRMS = True

    async def send(self, records: Sequence[Record]) -> Sequence[Refusal]:
        with self.cistern.lock:
            if self.cistern.fails:
                self.cistern.fails -= 1
                self.cistern.got += records[: len(records) // 2]  # and then the pipe bursts
                raise BridgeBroken("the pipe has burst")
            bad = [record for record in records if record.value == b"bad"]
            self.cistern.got += [record for record in records if record.value != b"bad"]
            return [Refusal(record, "it is bad") for record in bad]
