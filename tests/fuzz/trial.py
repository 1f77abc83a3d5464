"""A broker under attack: what is sent to it, what is watched meanwhile, what is looked for afterwards."""

from __future__ import annotations

import itertools
import os
import random
import re
import struct
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest
from kio.schema.index import api_key_map, schema_name_map

from headwater.record import codecs
from tests.broker.bystander import Bystander
from tests.broker.processes import BrokerProcess
from tests.broker.serving import create
from tests.compat.asking import EARLIEST, end_offset, fetch_request, offset_at, produce
from tests.compat.batches import batch, read_batches
from tests.compat.waiting import until
from tests.compat.wire import Wire
from tests.fuzz.attack import Attack
from tests.fuzz.loiterers import Loiterers
from tests.fuzz.requests import Known, Requests
from tests.record import reference

TOPICS = ("fuzz-a", "fuzz-b")
PER_VERSION = 20
CONNECTIONS = 12
RESIDENT_BYTES_MAX = 384 * 1024**2
"""60 MiB without clients; the budget (128 MiB), two payloads of 64 MiB and the pieces of one."""
SLOWEST_ROUND_SECONDS = 90.0
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

    with broker.wire() as wire:
        create(wire, f"held-{topic}")
    with (
        Bystander(broker.bootstrap, topic, commits=True) as honest,
        Loiterers(broker.bootstrap, f"held-{topic}"),
    ):
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
    _all_versions_were_sent(attack, corpus, seed)
    _what_was_stored_can_be_read(broker, seed)
    _background_work_goes_on(broker, topic)
    assert attack.looked_at >= attack.wanted
    assert slowest < SLOWEST_ROUND_SECONDS


def _versions(attack: Attack, corpus: Sequence[bytes]) -> int:
    """How many of those in the corpus were sent."""
    return len({struct.unpack_from(">hh", each) for each in corpus} & attack.apis.keys())


def _all_versions_were_sent(attack: Attack, corpus: Sequence[bytes], seed: int) -> None:
    """Every version of every API that the broker offers, at least once."""
    offered = {struct.unpack_from(">hh", each) for each in corpus}
    missing = offered - attack.apis.keys()
    assert not missing, f"seed {seed}: never sent: {sorted(missing)}"


def _what_was_stored_can_be_read(broker: BrokerProcess, seed: int) -> None:
    """Every batch that was acknowledged, by a strict reader: nothing poisonous got in."""
    with broker.wire() as wire:
        for name, partition in itertools.product(TOPICS, range(2)):
            offset, end = 0, end_offset(wire, name, partition)
            while offset < end:
                request = fetch_request(
                    name, offset, partitions=[partition], partition_max_bytes=1 << 24
                )
                row = wire.ask("fetch", 12, **request).responses[0].partitions[0]
                if row.log_start_offset > offset:
                    offset = row.log_start_offset  # a DeleteRecords was among the requests
                    continue
                found = read_batches(row.records)
                assert found, f"seed {seed}: nothing at {offset} of {name}-{partition}: {row}"
                for each in found:
                    if each.count:
                        payload = codecs.decompress(each.attributes & 7, each.records)
                        reference.read(payload, each.count, each.base_timestamp)
                offset = found[-1].last_offset + 1


def _background_work_goes_on(broker: BrokerProcess, topic: str) -> None:
    """Retention removes, and compaction compacts, also after all that."""
    old, keyed = f"old-{topic}", f"keyed-{topic}"
    with broker.wire() as wire:
        create(wire, old, retention_ms=1, segment_ms=1)
        compacted = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.001}
        create(wire, keyed, segment_bytes=1024**2, **compacted)
        for _ in range(5):
            produce(wire, old, batch([(None, b"v")]))
            produce(wire, keyed, batch([(b"k", bytes(600_000))]))
        until(lambda: offset_at(wire, old, EARLIEST).offset == 5, "retention to go on")
    broker.until_said(f"{keyed}-0: compacted")


def known_requests(broker: BrokerProcess, dice: random.Random) -> tuple[Known, list[bytes]]:
    """Valid requests of all that the broker says it speaks, and some that it does not."""
    with broker.wire() as wire:
        topics = list(TOPICS)
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
        if "Traceback (most recent call last)" in piece or "never retrieved" in piece:
            found.setdefault("\n".join(piece.splitlines()[-3:]), piece)
    return found
