"""A broker under attack: what is sent to it, what is watched meanwhile, what is looked for afterwards."""

from __future__ import annotations

import os
import random
import re
import struct
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest
from kio.schema.index import api_key_map, schema_name_map

from tests.broker.bystander import Bystander
from tests.broker.processes import BrokerProcess
from tests.broker.serving import create
from tests.compat.wire import Wire
from tests.fuzz.attack import Attack
from tests.fuzz.requests import Known, Requests

PER_VERSION = 20
CONNECTIONS = 12
RESIDENT_BYTES_MAX = 400 * 1024**2
SLOWEST_ROUND_SECONDS = 30.0
_OURS = re.compile(r"(\w+) version (\d+) failed")


def under_attack(
    broker: BrokerProcess,
    attack: Attack,
    corpus: Sequence[bytes],
    seed: int,
    capsys: pytest.CaptureFixture[str],
    of: str = "",
    topic: str = "bystander",
) -> None:
    """Run it, and say how it went; `of` is what was attacked."""
    peak = [0]

    def watch() -> None:
        peak[0] = max(peak[0], broker.resident_bytes)
        assert broker.process.poll() is None, f"seed {seed}: it died\n{broker.said[-3000:]}"
        assert peak[0] < RESIDENT_BYTES_MAX, f"seed {seed}: {peak[0]} bytes resident"

    with Bystander(broker.bootstrap, topic) as honest:
        attack.run(CONNECTIONS, watch)
        honest.goes_on()
        rounds, slowest = honest.rounds, honest.slowest
    with capsys.disabled():
        print(
            f"\nfuzz{of}: seed {seed}, {attack.looked_at:,} of {attack.counts['sent']:,} mutated "
            f"requests looked at ({attack.counts['answered']:,} answered, "
            f"{attack.counts['closed']:,} connections closed, {attack.counts['silent']:,} waited); "
            f"{_versions(attack, corpus)} versions of APIs; {peak[0] >> 20} MB at most; "
            f"an honest client did {rounds:,} rounds, the slowest in {slowest * 1000:.0f} ms"
        )
    _no_error_of_ours(broker, attack, seed)
    assert attack.looked_at >= attack.wanted
    assert slowest < SLOWEST_ROUND_SECONDS


def _versions(attack: Attack, corpus: Sequence[bytes]) -> int:
    """How many of those in the corpus were sent."""
    return len({struct.unpack_from(">hh", each) for each in corpus} & attack.apis.keys())


def known_requests(broker: BrokerProcess, dice: random.Random) -> tuple[Known, list[bytes]]:
    """Valid requests of all that the broker says it speaks, and some that it does not."""
    with broker.wire() as wire:
        topics = ["fuzz-a", "fuzz-b"]
        ids: Sequence[uuid.UUID] = [create(wire, name, 2) for name in topics]
        _subscribe_to_metrics(wire)
    with broker.wire() as wire:
        spoken = wire.versions
    known = Known([*topics, "nope"], [*ids, uuid.uuid4()], ["fuzz-g1", "fuzz-g2", ""])
    requests = Requests(known, dice)
    corpus = []
    for key, name in sorted(api_key_map.items()):
        for version in sorted(schema_name_map[name]):
            low, high = spoken.get(key, (1, 0))
            if low <= version <= high:
                corpus += [requests.frame(key, version) for _ in range(PER_VERSION)]
            elif dice.random() < 0.1:
                corpus.append(requests.frame(key, version))
    return known, corpus


def _subscribe_to_metrics(wire: Wire) -> None:
    """Two APIs are only offered where somebody wants clients' metrics."""
    change = {"name": "metrics", "config_operation": 0, "value": "*"}
    resource = {"resource_type": 16, "resource_name": "fuzz", "configs": [change]}
    wire.ask("incremental_alter_configs", 1, resources=[resource])


def _no_error_of_ours(broker: BrokerProcess, attack: Attack, seed: int) -> None:
    found = tracebacks(broker.said)
    if not found:
        return
    names = {name.replace("_", ""): key for key, name in api_key_map.items()}
    place = Path(os.environ.get("HEADWATER_FUZZ_KEPT") or broker.errors_path.parent)
    for name, version in {match.groups() for match in map(_OURS.search, found) if match}:
        key = names.get(name.lower(), -1), int(version)
        frames = [frame.hex() for frame in attack.sent.get(key, ())]
        (place / f"fuzz-{name}-{version}.hex").write_text("\n".join(frames))
    shown = "\n\n".join(list(found.values())[:20])
    pytest.fail(
        f"HEADWATER_SEED={seed}: {len(found)} errors of ours; what was sent to those APIs last "
        f"is in {place}\n{shown}"
    )


def tracebacks(said: str) -> dict[str, str]:
    """Those that differ: the last lines of it → the log's line before it, and the whole."""
    found: dict[str, str] = {}
    for piece in re.split(r"\n(?=\d{4}-\d\d-\d\d )", said):
        if "Traceback (most recent call last)" in piece:
            found.setdefault("\n".join(piece.splitlines()[-3:]), piece)
    return found
