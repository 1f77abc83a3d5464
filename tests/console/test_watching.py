"""What the pages are told: lines of a log, positions, answers that are cached."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headwater.console.jobs import Busy, Job, Jobs
from headwater.console.sentences import ago, duration, number, sentence_of, short, size
from headwater.console.watching.cache import Cached
from headwater.console.watching.captures import phase_of, progress_in, without_secrets
from headwater.console.watching.parts import last_lines
from headwater.errors import HeadwaterError


def test_the_last_line_about_a_snapshot_says_how_far_it_is() -> None:
    lines = [
        "12:00:01 shop: snapshot of customers: 20 of about 20 rows, 9 rows/s, 0 s left (table 1 of 2)",
        "12:00:06 shop: snapshot of orders: 1,500 of about 2,000 rows, 300 rows/s, 2 s left (table 2 of 2)",
        "12:00:07 shop: something else",
    ]
    progress = progress_in(lines)
    assert progress is not None
    assert (progress.table, progress.rows, progress.rows_expected) == ("orders", 1500, 2000)
    assert (progress.tables_done, progress.tables) == (1, 2)
    assert progress_in(["nothing of the kind"]) is None


@pytest.mark.parametrize(
    ("position", "phase"),
    [
        (None, "never run"),
        ({"snapshot": {}}, "snapshot"),
        ({"again": True}, "starting over"),
        ({"seq": 7}, "streaming"),
    ],
)
def test_a_position_says_what_a_capture_does(
    position: dict[str, object] | None, phase: str
) -> None:
    assert phase_of(position) == phase


def test_no_password_is_shown() -> None:
    assert without_secrets("postgresql://app:secret@db/shop") == "postgresql://db/shop"
    assert without_secrets("postgresql://app:${PASSWORD}@db/shop") == "postgresql://db/shop"
    assert without_secrets("sqlite:shop.db") == "sqlite:shop.db"


def test_the_end_of_a_log_is_read_and_a_missing_one_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "part.log"
    path.write_text("".join(f"line {n}\n" for n in range(100_000)))
    assert last_lines(path, 2) == ["line 99998", "line 99999"]
    assert last_lines(tmp_path / "none.log", 2) == []


def test_an_answer_is_asked_for_once_and_then_anew() -> None:
    now, asked = [0.0], []

    def load() -> int:
        asked.append(now[0])
        if now[0] == 5.0:
            raise HeadwaterError("away")
        return len(asked)

    cached = Cached(load, 2.0, lambda: now[0])
    assert (cached.get(), cached.get()) == (1, 1)
    now[0] = 5.0
    for _ in range(2):
        with pytest.raises(HeadwaterError, match="away"):
            cached.get()
    assert len(asked) == 2
    assert cached.glance(0) == 1  # the last good one
    cached.forget()
    now[0] = 6.0
    assert cached.get() == 3


def test_a_line_of_a_job_says_how_far_it_is() -> None:
    job = Job("Rebuild", ("rebuild",), 0.0)
    job.take("starting")
    assert job.done is None
    job.take("2,500 of 10,000 records, 100 records/s, 75 s left")
    assert job.done == 0.25
    assert job.lines[0] == "starting"


def test_a_command_is_run_once_at_a_time_and_leaves_its_words_and_its_code() -> None:
    async def run() -> None:
        jobs = Jobs()
        job = jobs.start("orders", "Verify", ("verify", "--no-such-option"))
        with pytest.raises(Busy, match="under way for orders"):
            jobs.start("orders", "Rebuild", ("rebuild",))
        while job.is_running:
            await asyncio.sleep(0.05)
        assert job.code == 2
        assert "no such option" in "".join(job.lines)
        again = jobs.start("orders", "Rebuild", ("broker", "--help"))
        await jobs.stop_all()
        assert not again.is_running

    asyncio.run(run())


def test_numbers_are_for_people() -> None:
    assert [number(n) for n in (None, 0, 3, 2.25, 1234567)] == ["–", "0", "3", "2.2", "1,234,567"]
    assert [short(n) for n in (9999, 12_345, 187_200, 2_500_000)] == [
        "9,999",
        "12.3 k",
        "187 k",
        "2.5 M",
    ]
    assert [size(n) for n in (12, 2048, 3 * 1024**3)] == ["12 bytes", "2.0 KiB", "3.0 GiB"]
    assert [duration(s) for s in (0.25, 3.14, 45, 600, 7200)] == [
        "250 ms",
        "3.1 s",
        "45 s",
        "10 min",
        "2 h",
    ]
    assert ago(None) == "never"


def test_an_error_is_a_sentence_and_never_a_traceback() -> None:
    assert sentence_of(HeadwaterError("no such thing", hint="look")) == ("No such thing", "look")
    assert sentence_of(TimeoutError())[0] == "The broker does not answer."
    assert sentence_of(ValueError("bad\nmore"))[0] == "ValueError: bad"
