"""Compaction in a process of its own, as the broker runs it, on real files."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.log import compaction
from headwater.log.files import Files

from .compacted import CONFIG, CompactedLog


@pytest.fixture
def log(tmp_path: Path) -> CompactedLog:
    log = CompactedLog(replace(CONFIG, segment_bytes=5000), Files(), tmp_path / "topic-0")
    for n in range(200):
        pairs = [(b"k%d" % (n % 9), b"x" * 20), (b"only-%d" % n, None if n % 5 else b"y")]
        log.append(pairs, codec=n % 5, producer=(n % 3, 0, 2 * (n // 3)))
    log.seal()
    return log


def run(log: CompactedLog, plan: compaction.Plan) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        compaction.command(log.folder), input=plan.to_json(), capture_output=True, text=True
    )


def test_a_plan_goes_in_and_a_result_comes_out(log: CompactedLog) -> None:
    before, plan = log.records(), log.plan()
    done = run(log, plan)
    assert (done.returncode, done.stderr) == (0, "")
    result = compaction.Result.from_json(done.stdout)
    assert result.records_kept < result.records_read == 400
    assert log.records() == before, "nothing counts before it is applied"
    old = compaction.apply(log.log, plan, result)
    assert old is not None and len(old) >= len(result.made) > 1
    for segment in old:
        segment.close()
    assert log.table() == log.expected_table()
    log.log.close()
    log.open()
    assert log.table() == log.expected_table()
    log.log.close()


def test_it_makes_the_same_files_as_in_process(log: CompactedLog) -> None:
    plan = log.plan()
    assert run(log, plan).returncode == 0
    there = {path.name: path.read_bytes() for path in log.folder.glob("*.cleaned")}
    compaction.compact(log.files, log.folder, plan)
    here = {path.name: path.read_bytes() for path in log.folder.glob("*.cleaned")}
    assert there == here
    assert there
    log.log.close()


def test_damage_is_told_in_one_sentence(log: CompactedLog) -> None:
    path = log.folder / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[500] ^= 1
    path.write_bytes(data)
    done = run(log, log.plan())
    assert (done.returncode, done.stderr) == (0, "")
    (sentence,) = compaction.Result.from_json(done.stdout).damaged
    assert "is damaged at byte" in sentence
    assert not (log.folder / "00000000000000000000.log.cleaned").exists()
    log.log.close()


def test_it_keeps_to_the_speed_it_is_given(log: CompactedLog) -> None:
    waited: list[float] = []
    size = sum(source.size for source in log.plan().sources)  # read twice: all of it is dirty
    between = compaction.paced(1_000_000.0, sleep=waited.append, now=lambda: 0.0)
    compaction.compact(log.files, log.folder, log.plan(), between=between)
    assert waited[-1] == pytest.approx(2 * size / 1_000_000, rel=0.01)
    log.log.close()
