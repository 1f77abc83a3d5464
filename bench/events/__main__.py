"""`python -m bench.events`: headwater.events beside the `eventsourcing` package, in one run.

Commands are decided one by one for each account, and counted when their events are on disk. A client has
one command on its way; 16 clients of headwater are tasks of an event loop, or threads, and those of
`eventsourcing` are threads, as it has no other way. The row with 16 commands on their way per client is
what a server gets that does not wait. What bounds the rates: for one client the round trip and its sync;
for many the Python of the application, as the broker has a core of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.broker import machine
from bench.events.measure import Commands, Events
from bench.events.ours import Ours
from bench.events.peer import Peer

RESULTS = Path(__file__).parents[1] / "results"
Measured = Commands | Events
Rows = dict[tuple[str, str], Measured]
"""By contestant and what it did."""


def main() -> None:
    words = argparse.ArgumentParser(prog="python -m bench.events", description=__doc__)
    words.add_argument("--quick", action="store_true", help="a tenth of everything")
    words.add_argument(
        "--seconds", type=float, default=5.0, help="of each row of commands, roughly"
    )
    words.add_argument("--long", type=int, default=100_000, help="events of the one aggregate")
    words.add_argument("--replay", type=int, default=1_000_000, help="events that are replayed")
    words.add_argument("--peer-replay", type=int, default=100_000, help="… by the others")
    words.add_argument("--without-postgres", action="store_true")
    words.add_argument(
        "--json",
        type=Path,
        default=RESULTS / "last-events.json",
        metavar="FILE",
        help="where the figures go (the documentation quotes bench/results/events.json)",
    )
    chosen = words.parse_args()
    if chosen.quick:
        chosen.seconds, chosen.long = chosen.seconds / 5, chosen.long // 5
        chosen.replay, chosen.peer_replay = chosen.replay // 10, chosen.peer_replay // 5
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder,
        peers(Path(folder), not chosen.without_postgres) as others,
    ):
        about = machine.describe(Path(folder))
        rows = compare(Path(folder), others, chosen)
    print(f"load after: {os.getloadavg()[0]:.1f}")
    plan = {"seconds": chosen.seconds, "long": chosen.long, "replay": chosen.replay}
    keep(chosen.json, about, {**plan, "peer_replay": chosen.peer_replay}, rows)
    print(f"figures: {os.path.relpath(chosen.json)}")


@contextlib.contextmanager
def peers(folder: Path, with_postgres: bool) -> Iterator[list[Peer]]:
    sqlite = {
        "PERSISTENCE_MODULE": "eventsourcing.sqlite",
        "SQLITE_DBNAME": str(folder / "events.db"),
    }
    with contextlib.ExitStack() as stack:
        found = [Peer("sqlite", sqlite)]
        if with_postgres:
            from tests.capture.postgres.server import postgres

            server = stack.enter_context(postgres({"fsync": "on", "shared_buffers": "256MB"}))
            server.execute(
                "CREATE DATABASE events", "CREATE ROLE bench SUPERUSER LOGIN PASSWORD 'x'"
            )
            found.append(
                Peer(
                    "postgresql",
                    {
                        "PERSISTENCE_MODULE": "eventsourcing.postgres",
                        "POSTGRES_DBNAME": "events",
                        "POSTGRES_HOST": "127.0.0.1",
                        "POSTGRES_PORT": str(server.port),
                        "POSTGRES_USER": "bench",
                        "POSTGRES_PASSWORD": "x",
                        "POSTGRES_POOL_SIZE": "16",
                    },
                )
            )
        yield found


def keep(path: Path, about: dict[str, Any], plan: dict[str, Any], rows: Rows) -> None:
    found: dict[str, dict[str, Any]] = {}
    for (who, what), measured in rows.items():
        found.setdefault(what, {})[who] = measured.figures()
    document = {"machine": about, "plan": plan, "measurements": found}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def compare(folder: Path, others: list[Peer], chosen: argparse.Namespace) -> Rows:
    ours = Ours(folder)
    try:
        rows = commands(ours, others, chosen.seconds)
        rows |= openings(ours, others, chosen.long)
        rows |= replays(ours, others, chosen)
    finally:
        ours.close()
    ratios({place: found.rate for place, found in rows.items()}, [each.name for each in others])
    return rows


def show(name: str, what: str, found: Measured) -> Measured:
    print(f"{name:<12} {what:<34} {found.line()}", flush=True)
    return found


def commands(ours: Ours, others: list[Peer], seconds: float) -> Rows:
    rows: Rows = {}
    for clients, what in ((1, "1 client"), (16, "16 clients")):
        each = max(50, int(seconds * (2_000 if clients == 1 else 800)))
        rows["headwater", what] = show("headwater", what, ours.commands(clients, each))
        for peer in others:
            count = max(20, int(seconds * (600 if clients == 1 else 80)))
            rows[peer.name, what] = show(peer.name, what, peer.commands(clients, count))
    show("headwater", "16 clients, threads", ours.threads(16, int(seconds * 200)))
    many = ours.commands(16, int(seconds * 1600), 16)
    rows["headwater", "16 clients, 16 each on the way"] = show(
        "headwater", "16 clients, 16 each on the way", many
    )
    return rows


def openings(ours: Ours, others: list[Peer], events: int) -> Rows:
    rows: Rows = {}
    plain, snapped = f"open {events:,} events", f"open {events:,}, snapshot"
    name = ours.history(events, 1, snapshot_every=5_000)
    ours.opening(name, False)  # the decoder is compiled once per machine
    rows["headwater", plain] = show("headwater", plain, ours.opening(name, False))
    rows["headwater", snapped] = show("headwater", snapped, ours.opening(name, True))
    for peer in others:
        id = peer.history(events, 1)
        rows[peer.name, plain] = show(peer.name, plain, peer.opening(id))
        peer.snapshot(id)
        rows[peer.name, snapped] = show(peer.name, snapped, peer.opening(id))
    return rows


def replays(ours: Ours, others: list[Peer], chosen: argparse.Namespace) -> Rows:
    rows: Rows = {}
    name = ours.history(chosen.replay, 1_000)
    rows["headwater", "replay"] = show("headwater", "replay", ours.replay(name))
    for peer in others:
        rows[peer.name, "replay"] = show(peer.name, "replay", peer.replay(chosen.peer_replay))
    return rows


def ratios(rows: dict[tuple[str, str], float], others: list[str]) -> None:
    print("\nheadwater's rate by theirs (to reach: 10 with 16 clients, and in the replay)")
    for (name, what), rate in rows.items():
        theirs = [(each, rows.get((each, what))) for each in others]
        if name == "headwater" and all(found is not None for _, found in theirs):
            said = "   ".join(f"{each} {rate / found:7.1f}" for each, found in theirs if found)
            print(f"  {what:<30} {said}")
    sixteen = rows["headwater", "16 clients, 16 each on the way"]
    said = "   ".join(f"{each} {sixteen / rows[each, '16 clients']:7.1f}" for each in others)
    print(f"  {'16 clients that do not wait':<30} {said}")


if __name__ == "__main__":
    main()
