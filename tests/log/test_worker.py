"""The processes that write segments anew: alone in their folder, and gone when their broker is."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from headwater.log import compaction, excision
from headwater.log.compaction_plan import Source
from headwater.log.excision import Selection, Work
from headwater.log.files import Files
from tests.compat.waiting import until

from .compacted import CONFIG, CompactedLog


@pytest.fixture
def log(tmp_path: Path) -> CompactedLog:
    log = CompactedLog(CONFIG, Files(), tmp_path / "topic-0")
    for _ in range(20):
        log.append([(b"k", b"1"), (b"l", b"2")])
    log.seal()
    return log


def commands(log: CompactedLog) -> dict[str, tuple[list[str], str]]:
    """What the broker would start, and with what."""
    sources = tuple(Source(s.base_offset, s.next_offset, s.size) for s in log.log.segments[:-1])
    work = Work(sources, Selection(first_offset=3, last_offset=9), 4096)
    return {
        "compaction": (compaction.command(log.folder), log.plan().to_json()),
        "excision": (excision.command(log.folder), work.to_json()),
    }


@pytest.mark.parametrize("kind", ["compaction", "excision"])
def test_it_gives_up_when_the_broker_is_gone(log: CompactedLog, kind: str) -> None:
    command, given = commands(log)[kind]
    # A shell in between: the process that asked is not the parent.
    shell = ["/bin/sh", "-c", '"$@"; exit $?', "sh", *command]
    done = subprocess.run(shell, input=given, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the broker that asked for this is gone" in done.stderr
    assert not list(log.folder.glob("*.cleaned"))
    log.log.close()


@pytest.mark.parametrize("kind", ["compaction", "excision"])
def test_two_at_a_time_do_not_write_to_one_folder(log: CompactedLog, kind: str) -> None:
    command, given = commands(log)[kind]
    folder = os.open(log.folder, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    os.close(folder)
    assert done.returncode == 1
    assert "is at work here" in done.stderr
    log.log.close()


@pytest.mark.parametrize("kind", ["compaction", "excision"])
def test_it_writes_nothing_to_another_topic_of_the_same_name(log: CompactedLog, kind: str) -> None:
    command, given = commands(log)[kind]
    log.log.close()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        until(lambda: is_open(process.pid, log.folder), "the process to open the folder")
        log.folder.rename(log.folder.with_name("gone"))
        shutil.copytree(log.folder.with_name("gone"), log.folder)
        out, error = process.communicate(given)
    assert (process.returncode, out) == (1, "")
    assert "its topic was deleted" in error
    assert not list(log.folder.glob("*.cleaned"))


def is_open(pid: int, folder: Path) -> bool:
    """Whether a process has this folder open."""
    links = Path(f"/proc/{pid}/fd").iterdir()
    return any(link.exists() and link.samefile(folder) for link in links)


@pytest.mark.parametrize("kind", ["compaction", "excision"])
def test_work_goes_in_and_a_result_comes_out(log: CompactedLog, kind: str) -> None:
    command, given = commands(log)[kind]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["records_read"] >= 40
    log.log.close()
