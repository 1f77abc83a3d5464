"""The machine under the benchmark: what it is, how fast its disk syncs, and its page cache."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import statistics
import subprocess
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import confluent_kafka

from bench.broker.contestants import KAFKA_HEAP
from headwater.record import forms
from headwater.testing.apache_kafka import KAFKA_VERSION

_MEGABYTE = bytes(1 << 20)


def describe(home: Path) -> dict[str, str | float]:
    """Facts without which the numbers mean nothing."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": float(os.cpu_count() or 1),
        "processor": _processor(),
        "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1),
        "load_before": round(os.getloadavg()[0], 2),
        "file_system": _file_system(home),
        "fdatasync_1kb_p50_ms": _fdatasync_ms(home, 1_000, 300),
        "fdatasync_1mb_p50_ms": _fdatasync_ms(home, 1_000_000, 30),
        "python": platform.python_version(),
        "uvloop": _installed("uvloop"),
        "headwater": _installed("headwater"),
        "headwater_record_checks": forms.name(),
        "kafka": KAFKA_VERSION,
        "kafka_heap": KAFKA_HEAP,
        "java": java.splitlines()[0] if java else "",
        "confluent_kafka": f"{confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})",
    }


def settle(home: Path, megabytes: int) -> None:
    """Before a timed part that writes so much: nobody pays for what went before.

    What others have written goes to disk. Then a file of that size is written and removed, because a
    virtual machine may give free memory back to its host, and pages that come from there anew cost a
    broker four times what the write itself does; those just freed do not.
    """
    os.sync()
    path = home / "settle"
    with path.open("wb", buffering=0) as file:
        for _ in range(megabytes + megabytes // 4 + 16):
            file.write(_MEGABYTE)
    path.unlink()


def _fdatasync_ms(home: Path, size: int, times: int) -> float:
    path = home / "fdatasync"
    seconds = []
    with path.open("wb", buffering=0) as file:
        for _ in range(times):
            file.write(_MEGABYTE[:size])
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - begin)
    path.unlink()
    return round(statistics.median(seconds) * 1000, 3)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(home: Path) -> str:
    """Type of the mount that holds `home`: fsync on tmpfs would prove nothing."""
    best = ("", "")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        if home.is_relative_to(mount) and len(mount) > len(best[0]):
            best = (mount, kind)
    return best[1]


def _installed(package: str) -> str:
    with contextlib.suppress(PackageNotFoundError):
        return version(package)
    return "not installed"
