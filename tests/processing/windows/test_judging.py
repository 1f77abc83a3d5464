"""Who is on time, by arrays alone; lengths of time; the watermark in a checkpoint."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headwater.processing import windows
from headwater.processing.clocks import Corrected
from headwater.processing.durations import BadDuration, interval, micros, millis
from headwater.processing.event_time.lateness import judge, reason, text_of
from headwater.processing.event_time.options import Timing, of_the_log
from headwater.processing.event_time.source import NoWatermark, late_micros

MOMENT = pa.timestamp("us", "UTC")
HOUR = 3_600_000_000


def batch(times: list[int | None], sent: list[int | None] | None = None) -> pa.RecordBatch:
    """Records that were received at one o'clock."""
    columns = {"at": pa.array(times, MOMENT)}
    if sent is not None:
        columns["sent"] = pa.array(sent, MOMENT)
    values = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    stamps = pa.array([HOUR] * len(times), MOMENT)
    return pa.RecordBatch.from_arrays([values, stamps], ["value", "timestamp"])


def timing(**more: object) -> Timing:
    said: dict[str, object] = {"time": "at", "lateness": 0, "late": "late", "checkpoint": "here"}
    return Timing(**{**said, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("window", "keep", "kept", "told"),
    [
        #                      0:00   0:30   0:59:59  1:00   none      watermark: 1:00
        (None, 0,             [False, False, False, False, False], [True] * 5),
        (windows.tumbling("1 hour"), 0, [False, False, False, True, False], [True, True, True, False, True]),
        (windows.tumbling("1 hour"), 1, [True, True, True, True, False], [False] * 4 + [True]),
        (windows.hopping("1 hour", "30 minutes"), 0,
         [False, True, True, True, False], [True, True, True, False, True]),
        (windows.session_window("30 minutes"), 0,
         [False, False, True, True, False], [True, True, False, False, True]),
    ],
)  # fmt: skip
def test_an_event_is_late_where_spark_would_drop_it(
    window: windows.Window | None, keep: int, kept: list[bool], told: list[bool]
) -> None:
    times = [0, HOUR // 2, HOUR - 1_000_000, HOUR, None]
    found = judge(batch(times), timing(window=window, keep=keep), HOUR)
    assert (found.kept.tolist(), found.told.tolist()) == (kept, told)


def test_without_a_late_topic_nobody_is_kept_apart() -> None:
    found = judge(batch([0, None]), timing(late=None, checkpoint=None), HOUR)
    assert found.kept.all() and not found.told.any()


def test_clocks_are_corrected_by_what_sending_and_receipt_differ() -> None:
    wrong = timing(corrected=Corrected("at", "sent"), ahead=0)
    found = judge(batch([100, 100, None], [400, None, 1]), wrong, 0)
    assert found.times.to_pylist() == [HOUR - 300, 100, None]
    assert found.kept.tolist() == [True, True, False]
    assert judge(batch([HOUR + 1]), timing(ahead=0), 0).told.tolist() == [True]


def test_the_reason_says_how_late_it_was() -> None:
    tumbling = timing(window=windows.tumbling("1 hour"), lateness=HOUR)
    sentence, said = reason(tumbling, HOUR // 2, HOUR, 2 * HOUR)
    assert sentence == "it came 9000000 ms after the newest event, later than is waited for"
    assert said["late.watermark"] == text_of(2 * HOUR) == "1970-01-01T02:00:00Z"
    assert json.loads(said["late.windows"]) == [["1970-01-01T00:00:00Z", "1970-01-01T01:00:00Z"]]
    assert reason(timing(), None, 0, 0) == ("it has no time in at", {})


def test_what_the_source_is_told_comes_there_as_it_was() -> None:
    said = timing(
        corrected=Corrected("at", "sent", "got"),
        window=windows.session_window("1 hour"),
        idle=5,
        ahead=0,
    )
    options = {name.lower(): value for name, value in said.to_options().items()}
    assert Timing.of({"subscribe": "a", **options}) == said
    assert of_the_log({"subscribe": "a", **options}) == {"subscribe": "a"}


def test_the_watermark_of_the_batch_before_is_found_in_the_checkpoint(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    with pytest.raises(NoWatermark, match="cannot be read"):
        late_micros(str(tmp_path), {})
    offsets.mkdir()
    for number in (0, 1, 2, 10):
        settings = json.dumps({"batchWatermarkMs": number * 1000})
        (offsets / str(number)).write_text(f'v1\n{settings}\n-\n{{"a": {{"0": {number}}}}}\n')
        (offsets / f".{number}.crc").write_text("")
    (offsets / "9").write_text('v1\n{"batchWatermarkMs": 7}\n')
    assert late_micros(str(tmp_path), {"a": {"0": 10}}) == 7000
    assert late_micros(str(tmp_path), {"a": {"0": 2}}) == 1_000_000
    assert late_micros(str(tmp_path), {"a": {"0": 0}}) == 0
    with pytest.raises(NoWatermark, match="no batch"):
        late_micros(str(tmp_path), {"a": {"0": 99}})
    (offsets / "11").write_text("v2\n{}\n")
    with pytest.raises(NoWatermark, match="version"):
        late_micros(str(tmp_path), {"a": {"0": 99}})


def test_lengths_of_time_are_read_as_people_write_them() -> None:
    assert micros("1 hour 30 minutes") == 90 * 60_000_000
    assert micros("1.5s") == micros("1500 ms") == millis("1500 seconds") == 1_500_000
    assert interval(dt.timedelta(minutes=1)) == "60000000 microseconds"
    for wrong in ("", "soon", "1", "1 fortnight", "1 month", "-1 hour"):
        with pytest.raises(BadDuration, match="no length of time"):
            micros(wrong)
    with pytest.raises(BadDuration, match="negative"):
        micros(dt.timedelta(-1))
    assert np.int64(micros("1 week")) == 7 * 24 * HOUR
