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
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import (
    TIMEOUT_S,
    RequestRefused,
    admin,
    bootstrap_option,
    json_option,
    print_json,
    print_table,
)
from headwater.cli.client import client_config
from headwater.cli.completion import topic_names
from headwater.cli.progress import Waiting

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

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
        _check(client, topic)
        beside = _beside(client, topic)
        if not (dry_run or yes):
            _confirm(topic)
        request = {
            "id": uuid.uuid4().hex,
            "topic": topic,
            "target": target,
            "partitions": partitions,
            "dry_run": dry_run,
            "who": f"{getpass.getuser()}@{platform.node()}",
            "why": why,
            "asked_ms": time.time_ns() // 1_000_000,
        }
        _ensure_topics(client)
        with Waiting(f"the broker looks through {topic}"):
            entry = _ask(bootstrap, request, seconds)
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


def _check(client: AdminClient, topic: str) -> None:
    """That this is headwater, and that the topic is there."""
    from confluent_kafka.admin import ConfigResource

    cluster = client.list_topics(timeout=TIMEOUT_S)
    if topic not in cluster.topics:
        raise RequestRefused(
            f"there is no topic {topic!r}", hint="headwater topics list shows those that exist"
        )
    broker = ConfigResource(ConfigResource.Type.BROKER, str(next(iter(cluster.brokers))))
    (described,) = client.describe_configs([broker], request_timeout=TIMEOUT_S).values()
    if "durability" not in described.result():
        raise RequestRefused(
            "only headwater's broker can excise",
            hint="on Apache Kafka a compacted topic and a tombstone for the key come closest",
        )


def _beside(client: AdminClient, topic: str) -> list[str]:
    """Topics that hold what derives from this one. Snapshots of events that stay must stay too."""
    from headwater.events import derived

    known = client.list_topics(timeout=TIMEOUT_S).topics
    source = derived.source_of(topic, known)
    if source is not None and topic.endswith(".snapshots"):
        raise RequestRefused(
            f"{topic} without a record would be read as if {source} had no such events",
            hint=f"headwater forget SUBJECT --excise {source} takes both",
        )
    return derived.topics_of(topic, known)


def _confirm(topic: str) -> None:
    if not sys.stdin.isatty():
        raise RequestRefused(
            f"records of {topic} would be deleted for good",
            hint="say --yes, or look first with --dry-run",
        )
    typer.confirm(f"Delete these records of {topic} for good?", abort=True)


def _ensure_topics(client: AdminClient) -> None:
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import NewTopic

    config = {"retention.ms": "-1", "retention.bytes": "-1"}
    wanted = [NewTopic(name, 1, 1, config=config) for name in (REQUESTS, AUDIT)]
    for future in client.create_topics(wanted, request_timeout=TIMEOUT_S).values():
        try:
            future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def _ask(bootstrap: str, request: dict[str, Any], seconds: int) -> dict[str, Any]:
    """Send the request and wait for its line in the audit topic."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, **client_config()}
    reader = Consumer({**settings, "group.id": "headwater-excise", "enable.auto.commit": False})
    try:
        _, end = reader.get_watermark_offsets(TopicPartition(AUDIT, 0), timeout=TIMEOUT_S)
        reader.assign([TopicPartition(AUDIT, 0, end)])
        producer = Producer({**settings, "enable.idempotence": True})
        producer.produce(REQUESTS, key=request["id"], value=json.dumps(request), partition=0)
        if producer.flush(TIMEOUT_S):
            raise RequestRefused("the request was not acknowledged", hint="see the broker's log")
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            message = reader.poll(0.5)
            if message is None or message.error() or message.key() != request["id"].encode():
                continue
            entry: dict[str, Any] = json.loads(message.value() or b"{}")
            return entry
    finally:
        reader.close()
    raise RequestRefused(
        f"not done after {seconds} s; the broker goes on with it",
        hint=f"its end will be recorded in {AUDIT} under {request['id']}",
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
