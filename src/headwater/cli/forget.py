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
from typing import TYPE_CHECKING, Any

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

    from headwater.spark.connect import Cluster

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
        help="Also take all records with this key out of that topic's files; may be given again.",
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
        places = _places(bootstrap, subject, topics, keys)
        # Where compaction would remove what the tombstone covers, it need not be waited for. Before
        # the tombstones, which have the same key and must stay for readers to see.
        compacted = {topic for topic, _ in places if _is_compacted(client, topic)}
        wanted = sorted({*excised, *(t for t in compacted if _can_excise(client, t))})
        done["excised"] = {
            topic: _excise(client, bootstrap, topic, excise._target(subject, None, None), why)
            for topic in wanted
        }
        _bury(bootstrap, subject, places)
        done["tombstones"] = [f"{topic}-{partition}" for topic, partition in places]
    _show(done, as_json)
    return 0


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
        offsets = store.forget(subject) or store.destroyed(subject)
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


def _places(bootstrap: str, subject: str, topics: list[str], keys: str) -> list[tuple[str, int]]:
    """Where a record of the subject stands."""
    from headwater.events import forgetting
    from headwater.spark.connect import Cluster

    cluster: Cluster = Cluster(client_settings(bootstrap))
    key = subject.encode()
    try:
        wanted = topics or [each for each in forgetting.candidates(cluster) if each != keys]
        return [
            (topic, partition)
            for topic in wanted
            for partition in forgetting.standing(cluster, topic, key)
        ]
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
