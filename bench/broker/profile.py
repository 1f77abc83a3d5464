"""Where the broker's time goes: `python -m bench.broker.profile produce|fetch|latency`.

Runs one raw scenario against a headwater broker that samples its own stack (`sampler`), and prints the
lines and functions in which it was found, by own time and with what they call. `--native` adds what
`perf` sees below Python (system calls, checksums, copies), where perf is installed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.broker import batches, contestants, meter, raw, wire
from bench.broker.plan import PARTITIONS

REPOSITORY = Path(__file__).resolve().parents[2]
_TOP = 25


def main() -> int:
    arguments = _arguments()
    (REPOSITORY / ".cache").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=REPOSITORY / ".cache") as home:
        folded = Path(home) / "stacks"
        command = contestants.headwater_command(
            Path(home) / "data", arguments.durability, contestants.SETTINGS
        )
        sampled = [sys.executable, "-m", "bench.broker.sampler", str(folded), *command[1:]]
        process = subprocess.Popen(sampled, stdout=subprocess.PIPE, cwd=REPOSITORY)
        try:
            assert process.stdout is not None
            address = contestants.ready_address(process.stdout.readline().decode())
            assert address is not None, "the broker did not start"
            _drive(arguments, address, process.pid, Path(home))
        finally:
            contestants.stop(process)
        stacks = folded.read_text()
    _print_stacks(stacks)
    if arguments.folded:
        arguments.folded.write_text(stacks)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.broker.profile")
    parser.add_argument("scenario", choices=("produce", "fetch", "latency"))
    parser.add_argument("--durability", choices=("disk", "os"), default="disk")
    parser.add_argument("--record-bytes", type=int, default=100)
    parser.add_argument("--batch-bytes", type=int, default=16_384)
    parser.add_argument("--mb", type=int, default=400, help="payload that is written or read")
    parser.add_argument("--native", action="store_true", help="also run perf on the broker")
    parser.add_argument("--folded", type=Path, help="keep the stacks, for a flame graph")
    return parser.parse_args()


def _drive(arguments: argparse.Namespace, bootstrap: str, pid: int, home: Path) -> None:
    """Set the scene, forget what was sampled so far, and run the scenario."""
    one_at_a_time = arguments.scenario == "latency"
    batch = batches.build(arguments.record_bytes, 0 if one_at_a_time else arguments.batch_bytes)
    per_request = batch.count * PARTITIONS
    bytes_per_turn = per_request * arguments.record_bytes * raw.CONNECTIONS
    requests = max(arguments.mb * 1_000_000 // bytes_per_turn, 1)
    records = requests * raw.CONNECTIONS * per_request
    with wire.Connection(bootstrap) as connection:
        topic_id = wire.create_topic(connection, "profile", PARTITIONS)
        if arguments.scenario == "fetch":
            raw.produce(bootstrap, "profile", batch, requests)
        perf = _perf(pid, home) if arguments.native else None
        os.kill(pid, signal.SIGUSR1)
        with meter.Meter(pid) as usage:
            if arguments.scenario == "produce":
                raw.produce(bootstrap, "profile", batch, requests)
            elif arguments.scenario == "fetch":
                raw.fetch(bootstrap, topic_id, batch, records // PARTITIONS)
            else:
                records = _one_at_a_time(connection, batch)
    if perf is not None:
        _print_perf(perf, home)
    print(
        f"{records} records in {usage.wall_s:.2f} s: {records / usage.wall_s / 1e6:.3f} M/s, "
        f"{usage.broker_s / records * 1e6:.3f} CPU s per million, "
        f"broker {usage.broker_s / usage.wall_s:.2f} cores, "
        f"client {usage.client_s / usage.wall_s:.2f} cores, {meter.resident_mb(pid):.0f} MB"
    )


def _one_at_a_time(connection: wire.Connection, batch: batches.Batch, seconds: float = 5.0) -> int:
    frame = wire.produce_frame("profile", {0: batch.data})
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        connection.send(frame)
        wire.check_produced(connection.receive())
        count += 1
    return count


def _print_stacks(folded: str) -> None:
    own: Counter[str] = Counter()
    below: Counter[str] = Counter()
    for line in folded.splitlines():
        stack, _, times = line.rpartition(" ")
        frames = stack.split(";")
        own[frames[-1]] += int(times)
        below.update(dict.fromkeys({_function(each) for each in frames}, int(times)))
    total = sum(own.values()) or 1
    below = Counter({name: count for name, count in below.items() if count < total})
    for title, counts in (("own time, by line", own), ("with callees, by function", below)):
        print(f"\n{title} ({total} samples)")
        for name, count in counts.most_common(_TOP):
            print(f"  {count / total:6.1%}  {name}")


def _function(entry: str) -> str:
    """`log/segment.py:120 Segment.append` without the line."""
    place, _, function = entry.partition(" ")
    return f"{place.rpartition(':')[0]} {function}"


def _perf(pid: int, home: Path) -> subprocess.Popen[bytes] | None:
    if shutil.which("perf") is None:
        print("perf is not installed: --native has nothing to add", file=sys.stderr)
        return None
    command = ["perf", "record", "-q", "-F", "499", "-p", str(pid), "-o", str(home / "perf.data")]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _print_perf(perf: subprocess.Popen[bytes], home: Path) -> None:
    perf.send_signal(signal.SIGINT)
    perf.wait()
    options = ["--stdio", "--percent-limit", "0.8", "--sort", "dso,symbol", "-q"]
    done = subprocess.run(
        ["perf", "report", "-i", str(home / "perf.data"), *options], capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    print("below Python (perf)\n" + "\n".join(lines[:_TOP]) if lines else done.stderr.strip())


if __name__ == "__main__":
    sys.exit(main())
