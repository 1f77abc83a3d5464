"""What Spark calls for a join with a table, in its workers: groups of keys, their state, their alarms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from headwater.processing.joins.rule import Rule
from headwater.processing.joins.versions import EVER, Group

if TYPE_CHECKING:
    import pandas as pd


class Processor(StatefulProcessor):
    """One state per group: all its versions, and the events that wait."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._state = handle.getValueState("kept", "kept BINARY")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        group = self._known()
        wait = self._rule.wait is not None
        self._rule.take(group, rows, timerValues.getCurrentWatermarkInMs() * 1000 if wait else EVER)
        yield self._decided(group, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        group = self._known()
        group.alarm_ms = None
        yield self._decided(group, timerValues)

    def close(self) -> None:
        pass

    def _known(self) -> Group:
        kept = self._state.get()
        return Group() if kept is None else Group.from_bytes(bytes(kept[0]))

    def _decided(self, group: Group, timers: Any) -> pd.DataFrame:
        if self._rule.wait is None:
            found = self._rule.decide(group, None)
        else:
            watermark_ms = timers.getCurrentWatermarkInMs()
            found = self._rule.decide(group, watermark_ms * 1000)
            self._set_alarm(group, watermark_ms)
        if group.versions or group.waiting:
            self._state.update((group.to_bytes(),))
        else:
            self._state.clear()
        return found

    def _set_alarm(self, group: Group, watermark_ms: int) -> None:
        """Be called once the watermark, in whole milliseconds, has reached the next event."""
        time = group.next_time
        if time is None:
            return
        # Later than the watermark: Spark looks only at alarms after it, and would never come to this one.
        wanted = max(1, -(-time // 1000) - 1, watermark_ms + 1)
        if group.alarm_ms is None or wanted < group.alarm_ms:
            self._handle.registerTimer(wanted)
            group.alarm_ms = wanted
