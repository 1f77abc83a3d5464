"""A broker is killed while a process of its own writes segments anew: that process ends, too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.processes import broker_process
from tests.compat.waiting import until

CONFIG = {"internal.segment.bytes": "20000", "min.cleanable.dirty.ratio": "0.01"}


def worker_of(broker: int, module: str) -> int | None:
    """The process of this broker that runs the module, if there is one."""
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"PPid:\t{broker}\n" in (folder / "status").read_text():
                if module.encode() in (folder / "cmdline").read_bytes():
                    return int(folder.name)
        except OSError:
            continue  # it has ended meanwhile
    return None


def is_over(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def fill(bootstrap: str, policy: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = NewTopic("t", 1, 1, config={**CONFIG, "cleanup.policy": policy})
    admin.create_topics([topic])["t"].result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(5000):
        producer.produce("t", key=b"k%d" % (number % 50), value=bytes(100))
        if number % 100 == 99:
            assert producer.flush(60) == 0


@pytest.mark.parametrize("kind", ["compaction", "excision"])
def test_a_process_that_writes_segments_ends_with_its_broker(tmp_path: Path, kind: str) -> None:
    module = f"headwater.log.{kind}"
    asking: subprocess.Popen[bytes] | None = None
    with broker_process(tmp_path / "log", "log.cleaner.backoff.ms=10") as broker:
        fill(broker.bootstrap, "compact" if kind == "compaction" else "delete")
        if kind == "excision":
            words = ("excise", "t", "--key", "k1", "--yes", "--bootstrap", broker.bootstrap)
            asking = subprocess.Popen(
                [sys.executable, "-m", "headwater", *words],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        worker = until(
            lambda: worker_of(broker.process.pid, module), f"a process for {kind}", pause=0.001
        )
        os.kill(worker, signal.SIGSTOP)
        broker.kill()
        os.kill(worker, signal.SIGCONT)
        until(lambda: is_over(worker), "it to give up")
        if asking is not None:
            asking.kill()
            asking.wait()
    assert not list((tmp_path / "log").glob("t-0/*.swap")), "nothing was put in place"
