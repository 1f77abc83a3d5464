"""`headwater excise`: take the records of one key, or a range of offsets, out of the log for good.

Writes a request to `__headwater_excisions` and waits for the broker's line in `__headwater_audit`
(see `broker.excisions`). The key leaves this process only as a salted hash.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import platform
import re
import secrets
import sys
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import (
    TIMEOUT_S,
    admin,
    bootstrap_option,
    json_option,
    print_json,
    print_table,
)
from headwater.cli.completion import topic_names
from headwater.cli.progress import Waiting
from headwater.cli.properties import client_config
from headwater.client.errors import RequestRefused

if TYPE_CHECKING:
    from headwater.client.librdkafka import AdminClient, Producer

REQUESTS, AUDIT = "__headwater_excisions", "__headwater_audit"
_OFFSETS = re.compile(r"(\d+):(\d+)-(\d+)")


def add_to(app: typer.Typer) -> None:
    app.command("excise")(excise)


def excise(
    topic: str = typer.Argument(
        ...,
        metavar="TOPIC",
        help="The topic to take records out of.",
        autocompletion=topic_names,
    ),
    key: str | None = typer.Option(None, "--key", metavar="K", help="Records with this key."),
    key_hex: str | None = typer.Option(
        None, "--key-hex", metavar="HEX", help="The same for a key that is no text."
    ),
    offsets: str | None = typer.Option(
        None,
        "--offsets",
        metavar="PARTITION:FIRST-LAST",
        help="Records of one partition, from the first offset to the last.",
    ),
    why: str = typer.Option("", "--why", metavar="TEXT", help="Reason, for the audit record."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only count what would go."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    seconds: int = typer.Option(600, "--seconds", help="How long to wait for the end."),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> int:
    """Delete records for good: from every segment, closed and active.

    All other records keep their offsets. An audit record (who, when, what, why; not the data)
    is kept. Interrupted at any point it goes on when the broker starts again.

    Example: headwater excise orders --key customer-17 --why "asked to be forgotten"
    """
    target, partitions = _target(key, key_hex, offsets)
    with admin(bootstrap) as client:
        topic_id = _check(client, topic)
        beside = _beside(client, topic)
        if not (dry_run or yes):
            _confirm(topic)
        wanted = {"topic": topic, "topic_id": topic_id, "target": target, "partitions": partitions}
        with Waiting(f"the broker looks through {topic}"):
            entry = _ask(bootstrap, {**wanted, "dry_run": dry_run, "why": why}, seconds)
    _show(entry | {"not_excised": beside}, as_json)
    return 0 if entry["status"] == "done" else 1


def _target(
    key: str | None, key_hex: str | None, offsets: str | None
) -> tuple[dict[str, Any], list[int] | None]:
    if sum(given is not None for given in (key, key_hex, offsets)) != 1:
        raise typer.BadParameter("give one of --key, --key-hex and --offsets", param_hint="'--key'")
    if offsets is not None:
        found = _OFFSETS.fullmatch(offsets)
        if found is None or int(found[2]) > int(found[3]):
            raise typer.BadParameter(
                f"{offsets!r} is not PARTITION:FIRST-LAST, for example 0:120-130",
                param_hint="'--offsets'",
            )
        return {"first_offset": int(found[2]), "last_offset": int(found[3])}, [int(found[1])]
    try:
        wanted = bytes.fromhex(key_hex) if key_hex is not None else (key or "").encode()
    except ValueError:
        raise typer.BadParameter("not hexadecimal", param_hint="'--key-hex'") from None
    salt = secrets.token_bytes(16)
    digest = hashlib.sha256(salt + wanted).hexdigest()
    return {"salt": salt.hex(), "digest": digest}, None


def _check(client: AdminClient, topic: str) -> str:
    """That this is headwater, and that the topic is there; its id."""
    from headwater.client import settings
    from headwater.client.topics import id_of

    cluster = client.list_topics(timeout=TIMEOUT_S)
    if topic not in cluster.topics:
        raise RequestRefused(
            f"there is no topic {topic!r}", hint="headwater topics list shows those that exist"
        )
    if "durability" not in settings.of_broker(client, next(iter(cluster.brokers))):
        raise RequestRefused(
            "only headwater's broker can excise",
            hint="on Apache Kafka a compacted topic and a tombstone for the key come closest",
        )
    return str(id_of(client, topic))


def _beside(client: AdminClient, topic: str) -> list[str]:
    """Topics that hold what derives from this one. Snapshots of events that stay must stay too."""
    from headwater.events import derived_topics

    known = client.list_topics(timeout=TIMEOUT_S).topics
    source = derived_topics.source_of(topic, known)
    if source is not None and topic.endswith(".snapshots"):
        raise RequestRefused(
            f"{topic} without a record would be read as if {source} had no such events",
            hint=f"headwater forget SUBJECT --excise {source} takes both",
        )
    return derived_topics.topics_of(topic, known)


def _confirm(topic: str) -> None:
    if not sys.stdin.isatty():
        raise RequestRefused(
            f"records of {topic} would be deleted for good",
            hint="say --yes, or look first with --dry-run",
        )
    typer.confirm(f"Delete these records of {topic} for good?", abort=True)


def can_excise(client: AdminClient, topic: str) -> bool:
    """Whether this is headwater, with such a topic."""
    try:
        _check(client, topic)
    except RequestRefused:
        return False
    return True


def excise_key(
    client: AdminClient, bootstrap: str, topic: str, key: str, why: str
) -> dict[str, Any]:
    """Take the records of a key out; the broker's line in the audit."""
    return _excise(client, bootstrap, topic, _target(key, None, None), why)


def excise_record(client: AdminClient, bootstrap: str, topic: str, offset: int, why: str) -> int:
    """Take one record of partition 0 out; how many there were."""
    target = _target(None, None, f"0:{offset}-{offset}")
    entry = _excise(client, bootstrap, topic, target, why)
    if entry["status"] != "done":
        raise RequestRefused(entry["error"])
    return int(entry["removed"])


def _excise(
    client: AdminClient,
    bootstrap: str,
    topic: str,
    target: tuple[dict[str, Any], list[int] | None],
    why: str,
) -> dict[str, Any]:
    wanted = {"topic": topic, "topic_id": _check(client, topic), "target": target[0]}
    return _ask(bootstrap, {**wanted, "partitions": target[1], "dry_run": False, "why": why}, 600)


def _ensure_topics(bootstrap: str) -> None:
    from headwater.client import creation
    from headwater.client.creation import Wanted
    from headwater.client.log import Log

    config = {"retention.ms": "-1", "retention.bytes": "-1"}
    with Log(bootstrap, client_config()) as log, log.cluster() as cluster:
        creation.ensure(cluster, [Wanted(name, 1, config) for name in (REQUESTS, AUDIT)])


def _ask(bootstrap: str, wanted: Mapping[str, object], seconds: int) -> dict[str, Any]:
    """Send a request and wait for its line in the audit topic."""
    from headwater.client.librdkafka import Consumer, Producer, TopicPartition

    _ensure_topics(bootstrap)
    request = {**wanted, "id": uuid.uuid4().hex, "asked_ms": time.time_ns() // 1_000_000}
    request["who"] = f"{getpass.getuser()}@{platform.node()}"
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, **client_config()}
    reader = Consumer({**settings, "group.id": "headwater-excise", "enable.auto.commit": False})
    try:
        _, end = reader.get_watermark_offsets(TopicPartition(AUDIT, 0), timeout=TIMEOUT_S)
        reader.assign([TopicPartition(AUDIT, 0, end)])
        _send(Producer({**settings, "enable.idempotence": True}), request)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            message = reader.poll(0.5)
            if message is None or message.error() or message.key() != str(request["id"]).encode():
                continue
            entry: dict[str, Any] = json.loads(message.value() or b"{}")
            return entry
    finally:
        reader.close()
    raise RequestRefused(
        f"not done after {seconds} s; the broker goes on with it",
        hint=f"its end will be recorded in {AUDIT} under {request['id']}",
    )


def _send(producer: Producer, request: Mapping[str, object]) -> None:
    failures: list[str] = []

    def told(error: object, _: object) -> None:
        if error is not None:
            failures.append(str(error))

    key, words = str(request["id"]), json.dumps(request)
    producer.produce(REQUESTS, key=key, value=words, partition=0, on_delivery=told)
    if producer.flush(TIMEOUT_S) or failures:
        why = f": {failures[0]}" if failures else ""
        raise RequestRefused(
            f"the request was not acknowledged{why}",
            hint=f"it takes the rights to write to {REQUESTS} and to alter the cluster; see the broker's log",
        )


def _show(entry: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(entry)
        return
    if entry["status"] != "done":
        raise RequestRefused(entry["error"])
    rows: list[list[object]] = [
        [int(number), count] for number, count in entry["partitions"].items()
    ]
    print_table(["partition", "found" if entry["dry_run"] else "removed"], rows)
    one = entry["removed"] == 1
    fate = "would go" if entry["dry_run"] else "is gone" if one else "are gone"
    print(f"{entry['removed']:,} record{'' if one else 's'} {fate}.")
    if entry["not_excised"]:
        left = ", ".join(entry["not_excised"])
        print(f"Not touched: {left}; `headwater forget` with --excise takes these too.")
