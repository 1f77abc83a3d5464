"""Read your own writes: wait until a view has what was written.

Producing gives a position (`after`); whoever reads a view waits until the view's position covers it, or is
told that it does not. Used by applications, `headwater wait` and the `Headwater-Position` header (`asgi`).

    view = headwater.views.View("order_search", to="sqlite:shop.db")
    view.wait(after(message), timeout=5)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from headwater.client.position import NotAPosition, Position
from headwater.errors import HeadwaterError
from headwater.secrets import shown
from headwater.views.targets.contract import Kind, Shape, Target, Unavailable

if TYPE_CHECKING:
    from headwater.client.librdkafka import Message

HEADER = "Headwater-Position"
PARAMETER = "position"
DEFAULT_TIMEOUT_S = 10.0
_FIRST_S, _MOST_S = 0.01, 0.25


class NotYet(HeadwaterError):
    """The view has not come so far in the time that it was given."""

    def __init__(self, sentence: str, reached: Position | None) -> None:
        super().__init__(sentence, hint="wait longer, or see how far it is with: headwater views")
        self.reached = reached


class Unrelated(HeadwaterError):
    """The position is of topics that the view does not read: waiting would not help."""


class View:
    """A view where it lives, as an application sees it: no Spark, no pipeline file."""

    def __init__(
        self,
        name: str,
        to: str,
        *,
        kind: Kind = Kind.UPSERT,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.name, self.to = name, to
        self._kind, self._options = kind, dict(options or {})

    @property
    def where(self) -> str:
        """Without a password."""
        return shown(self.to)

    def position(self) -> Position | None:
        """How far the version is that readers see; None before its first batch."""
        first = self.version(1)
        current = first.current()
        if current is None:
            return None
        seen = first if current == 1 else self.version(current)
        applied = seen.applied()
        return None if applied is None else applied.position

    def wait(self, position: Position | str, timeout: float = DEFAULT_TIMEOUT_S) -> Position:
        """Return once readers of the view see all that is before `position`; NotYet if they do not."""
        wanted = Position.parse(position) if isinstance(position, str) else position
        return wait(self.position, wanted, timeout, name=self.name)

    def version(self, number: int) -> Target:
        """One version of it, for its position and its state; its rows need a schema, and so a query."""
        import pyarrow as pa

        from headwater.views.targets.registry import target_for

        # A target tells its positions and versions without knowing the columns.
        key = () if self._kind is Kind.APPEND else ("-",)
        shape = Shape(self.name, pa.schema([]), key, self._kind, number, self._options)
        return target_for(self.to, shape)


def wait(
    position_of: Callable[[], Position | None],
    wanted: Position,
    timeout: float,
    *,
    name: str = "the view",
    sleep: Callable[[float], None] = time.sleep,
) -> Position:
    """Ask for a view's position, less and less often, until it covers `wanted`."""
    deadline = time.monotonic() + timeout
    pause, reached, trouble = _FIRST_S, None, ""
    while True:
        try:
            reached = position_of() or reached
            trouble = ""
        except Unavailable as error:
            trouble = f", and does not answer: {error}"
        if reached is not None:
            check_topics(name, reached, wanted)
            if reached.covers(wanted):
                return reached
        left = deadline - time.monotonic()
        if left <= 0:
            raise _not_yet(name, reached, wanted, timeout, trouble)
        sleep(min(pause, left))
        pause = min(pause * 1.5, _MOST_S)


def check_topics(name: str, reached: Position, wanted: Position) -> None:
    """Raises Unrelated for topics that the view does not read: their offsets would be waited for for ever."""
    strange = sorted(set(wanted.offsets) - set(reached.offsets))
    if strange:
        raise Unrelated(
            f"{name} does not read {', '.join(strange)}"[:300],
            hint=f"it reads {', '.join(sorted(reached.offsets))}",
        )


def _not_yet(
    name: str, reached: Position | None, wanted: Position, timeout: float, trouble: str
) -> NotYet:
    if reached is None:
        return NotYet(f"{name} has not begun after {timeout:g} s{trouble}", None)
    return NotYet(
        f"{name} has not reached {wanted} after {timeout:g} s: it is {reached.behind(wanted):,} "
        f"records behind that{trouble}",
        reached,
    )


def after(messages: Message | Iterable[Message]) -> Position:
    """The position behind delivered records: what confluent-kafka's delivery report gives, or many."""
    several = messages if isinstance(messages, Iterable) else [messages]
    offsets: dict[str, dict[int, int]] = {}
    for message in several:
        topic, place, offset = message.topic(), message.partition(), message.offset()
        if topic is None or place is None or offset is None or offset < 0:
            raise HeadwaterError(
                "a record that was not delivered has no position",
                hint="take the message that the delivery report is called with, when it has no error",
            )
        partitions = offsets.setdefault(topic, {})
        partitions[place] = max(partitions.get(place, 0), offset + 1)
    return Position(offsets)


def asked_position(
    headers: Mapping[str, str], parameters: Mapping[str, str] | None = None
) -> Position | None:
    """The position that an HTTP request asks for: its header `Headwater-Position`, or `?position=`."""
    by_name = {name.lower(): value for name, value in headers.items()}
    text = by_name.get(HEADER.lower()) or (parameters or {}).get(PARAMETER)
    return Position.parse(text) if text else None


__all__ = [
    "HEADER",
    "PARAMETER",
    "NotAPosition",
    "NotYet",
    "Unrelated",
    "View",
    "after",
    "asked_position",
    "wait",
]
