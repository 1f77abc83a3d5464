"""`headwater forget`: a subject's personal data becomes unreadable, everywhere, for good.

Puts together `events.keys` (destroy the key), `events.forgetting` (tombstones) and `cli.excise` (take
records out of the log's files).
"""

from __future__ import annotations

import getpass
import platform
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from headwater.cli import excise
from headwater.cli.admin import (
    RequestRefused,
    admin,
    bootstrap_option,
    json_option,
    print_json,
)
from headwater.cli.client import client_config, client_settings
from headwater.cli.events import check_installed

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

KEYS = "headwater.keys"


def add_to(app: typer.Typer) -> None:
    app.command("forget")(forget)


def forget(
    subject: str = typer.Argument(..., metavar="SUBJECT", help="Whose data is to be forgotten."),
    topics: list[str] = typer.Option(
        [],
        "--topic",
        metavar="TOPIC",
        help="Send a tombstone there; may be given again. Without it: to every topic that has a "
        "record with the subject as its key.",
    ),
    excised: list[str] = typer.Option(
        [],
        "--excise",
        metavar="TOPIC",
        help="Also take all records with this key out of that topic's files, of those that derive "
        "from it (snapshots, answers, commands) and of dead letters; may be given again.",
    ),
    keys: str = typer.Option(KEYS, "--keys", metavar="TOPIC", help="The topic of the keys."),
    why: str = typer.Option("", "--why", metavar="TEXT", help="Reason, for the audit records."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> int:
    """Forget a person: destroy the key of their personal data, and tell every view.

    What was sealed with the key stays in the log and can never be read again. The key's own
    record, and the subject's records in compacted topics, are taken out of the log's files
    (headwater's broker; on Apache Kafka compaction does it later). Twice does no harm.
    What could not be reached is named.

    Example: headwater forget customer-17 --excise customer-notes --why "asked for it"
    """
    check_installed()
    if not yes:
        _confirm(subject)
    with admin(bootstrap) as client:
        there = client.list_topics(timeout=10).topics
        for topic in [*topics, *excised]:
            if topic not in there:
                raise RequestRefused(
                    f"there is no topic {topic!r}", hint="headwater topics list shows those"
                )
        done: dict[str, Any] = {"subject": subject}
        done |= _destroy(client, bootstrap, keys, subject, why, keys in there)
        reach = _reach(bootstrap, subject, topics, excised, keys)
        can = _can_excise(client, keys if keys in there else next(iter(there), ""))
        # Where compaction would remove what the tombstone covers, it need not be waited for. Before
        # the tombstones, which have the same key and must stay for readers to see.
        compacted = {topic for topic, _ in reach.places if _is_compacted(client, topic)}
        wanted = sorted({*excised, *compacted, *reach.derived}) if can else []
        done["excised"] = {
            topic: _excise(client, bootstrap, topic, excise._target(subject, None, None), why)
            for topic in wanted
        }
        _bury(bootstrap, subject, reach.places)
        done["tombstones"] = [f"{topic}-{partition}" for topic, partition in reach.places]
        for topic in reach.derived if can else ():
            # An owner may have written from its memory, until it saw the tombstone.
            again = excise._target(subject, None, None)
            done["excised"][topic] += _excise(client, bootstrap, topic, again, why)
        done["skipped"] = _skipped(reach, excised, wanted, can)
    _show(done, as_json)
    return 0


class _Reach(NamedTuple):
    """Where the subject is."""

    places: list[tuple[str, int]]
    """Topics and partitions where a record stands under its key."""
    derived: list[str]
    """What derives from the topics that are to be excised, and holds the key."""
    replies: list[str]
    """Answers to other processes, under keys of theirs."""
    letters: list[str]
    """Dead letters under its key."""


def _skipped(reach: _Reach, excised: list[str], done: list[str], can: bool) -> dict[str, str]:
    """What still has records of the subject, and why."""
    found = dict.fromkeys(reach.replies, "answers under other keys; they are kept for an hour")
    standing = {topic for topic, _ in reach.places} | set(reach.letters)
    for topic in sorted(standing | set(excised) | set(reach.derived) if not can else standing):
        if topic not in done:
            found[topic] = (
                f"its records stay; --excise {topic} takes them out of the files"
                if can
                else "its records stay; only headwater's broker can excise"
            )
    return found


def _confirm(subject: str) -> None:
    if not sys.stdin.isatty():
        raise RequestRefused(
            f"the personal data of {subject} would be unreadable for good", hint="say --yes"
        )
    typer.confirm(f"Make the personal data of {subject} unreadable for good?", abort=True)


def _destroy(
    client: AdminClient, bootstrap: str, topic: str, subject: str, why: str, there: bool
) -> dict[str, Any]:
    from headwater.events.keys import Keys

    if not there:
        return {"keys": 0, "key_records_excised": 0}
    store = Keys(bootstrap, client=client_config(), topic=topic)
    try:
        store.forget(subject)
        # Also of keys that somebody destroyed before, and whose records are still there.
        offsets = store.destroyed(subject)
    finally:
        store.close()
    if not _can_excise(client, topic):
        return {"keys": len(offsets), "key_records_excised": None}
    removed = 0
    for offset in offsets:
        target = excise._target(None, None, f"0:{offset}-{offset}")
        removed += _excise(client, bootstrap, topic, target, why)
    return {"keys": len(offsets), "key_records_excised": removed}


def _can_excise(client: AdminClient, topic: str) -> bool:
    try:
        excise._check(client, topic)
    except RequestRefused:
        return False
    return True


def _reach(
    bootstrap: str, subject: str, topics: list[str], excised: list[str], keys: str
) -> _Reach:
    from headwater.events import derived, forgetting
    from headwater.spark.connect import Cluster

    cluster: Cluster = Cluster(client_settings(bootstrap))
    key = subject.encode()
    try:
        known = cluster.metadata(None).topics
        wanted = sorted({*topics, *excised}) if topics else forgetting.candidates(cluster)
        places = [
            (topic, partition)
            for topic in wanted
            if topic != keys
            for partition in forgetting.standing(cluster, topic, key)
        ]
        letters = [t for t in derived.letters(known) if forgetting.holds(cluster, t, key)]
        beside = [each for topic in excised for each in derived.topics_of(topic, known)]
        replies = [f"{topic}.replies" for topic in excised if f"{topic}.replies" in known]
        beside = sorted({*beside, *(letters if excised else ())} - {*excised})
        return _Reach(places, beside, replies, letters)
    finally:
        cluster.close()


def _bury(bootstrap: str, subject: str, places: list[tuple[str, int]]) -> None:
    from headwater.events import client as clients
    from headwater.events import forgetting

    forgetting.bury(clients.for_confluent(bootstrap, client_config()), subject.encode(), places)


def _is_compacted(client: AdminClient, topic: str) -> bool:
    from confluent_kafka.admin import ConfigResource

    wanted = ConfigResource(ConfigResource.Type.TOPIC, topic)
    (found,) = client.describe_configs([wanted], request_timeout=10).values()
    return "compact" in (found.result()["cleanup.policy"].value or "")


def _excise(
    client: AdminClient,
    bootstrap: str,
    topic: str,
    target: tuple[dict[str, Any], list[int] | None],
    why: str,
) -> int:
    excise._check(client, topic)
    excise._ensure_topics(client)
    request = {
        "id": uuid.uuid4().hex,
        "topic": topic,
        "target": target[0],
        "partitions": target[1],
        "dry_run": False,
        "who": f"{getpass.getuser()}@{platform.node()}",
        "why": why or "forget",
        "asked_ms": time.time_ns() // 1_000_000,
    }
    entry = excise._ask(bootstrap, request, 600)
    if entry["status"] != "done":
        raise RequestRefused(entry["error"])
    return int(entry["removed"])


def _show(done: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    print(f"{done['keys']} keys of {done['subject']} are destroyed.")
    if done["key_records_excised"] is None:
        print("Their records stay in the log's files until compaction (this is not headwater).")
    else:
        print(f"{done['key_records_excised']} of their records are out of the log's files.")
    said = ", ".join(done["tombstones"]) or "no topic: none has a record with this key"
    print(f"Tombstones went to {said}.")
    for topic, count in done["excised"].items():
        print(f"{count:,} records are out of {topic}.")
    for topic, why in done["skipped"].items():
        print(f"Not reached: {topic} ({why}).")
