"""How commands ask the broker to take records out of the log: `excise`, `forget` and `keys` come here.

A request goes to `__headwater_excisions`, and its answer is the broker's line in `__headwater_audit` (see
`broker.excisions`). The key leaves this process only as a salted hash.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import platform
import re
import secrets
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import TIMEOUT_S
from headwater.cli.properties import client_config
from headwater.client.errors import RequestRefused

if TYPE_CHECKING:
    from headwater.client.librdkafka import AdminClient, Producer

REQUESTS, AUDIT = "__headwater_excisions", "__headwater_audit"
_OFFSETS = re.compile(r"(\d+):(\d+)-(\d+)")


def target_of(
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


def topic_id_of(client: AdminClient, topic: str) -> str:
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


def can_excise(client: AdminClient, topic: str) -> bool:
    """Whether this is headwater, with such a topic."""
    try:
        topic_id_of(client, topic)
    except RequestRefused:
        return False
    return True


def excise_key(
    client: AdminClient, bootstrap: str, topic: str, key: str, why: str
) -> dict[str, Any]:
    """Take the records of a key out; the broker's line in the audit."""
    return _excise(client, bootstrap, topic, target_of(key, None, None), why)


def excise_record(
    client: AdminClient, bootstrap: str, topic: str, offset: int, why: str
) -> tuple[int, list[str]]:
    """Take one record of partition 0 out; how many there were, and files that may hold it still."""
    entry = _excise(client, bootstrap, topic, target_of(None, None, f"0:{offset}-{offset}"), why)
    if entry["status"] != "done":
        raise RequestRefused(entry["error"])
    return int(entry["removed"]), entry.get("copies", [])


def _excise(
    client: AdminClient,
    bootstrap: str,
    topic: str,
    target: tuple[dict[str, Any], list[int] | None],
    why: str,
) -> dict[str, Any]:
    wanted = {"topic": topic, "topic_id": topic_id_of(client, topic), "target": target[0]}
    return ask(bootstrap, {**wanted, "partitions": target[1], "dry_run": False, "why": why}, 600)


def _ensure_topics(bootstrap: str) -> None:
    from headwater.client import creation
    from headwater.client.creation import Wanted
    from headwater.client.log import Log

    config = {"retention.ms": "-1", "retention.bytes": "-1"}
    with Log(bootstrap, client_config()) as log, log.cluster() as cluster:
        creation.ensure(cluster, [Wanted(name, 1, config) for name in (REQUESTS, AUDIT)])


def ask(bootstrap: str, wanted: Mapping[str, object], seconds: int) -> dict[str, Any]:
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


class Excising:
    """All that is excised for one subject, by its key; `forget` has one."""

    def __init__(self, client: AdminClient, bootstrap: str, subject: str, why: str) -> None:
        self._client, self._bootstrap = client, bootstrap
        self._subject, self._why = subject, why
        self.removed: dict[str, int] = {}
        self.incomplete: dict[str, str] = {}
        """What could not be excised, and why; the rest is done all the same."""
        self._copies: dict[str, list[str]] = {}
        """By topic: files beside the log that may hold the same."""

    def excise(self, topic: str) -> None:
        asked = (self._client, self._bootstrap, topic, self._subject, self._why or "forget")
        entry = excise_key(*asked)
        self.removed[topic] = self.removed.get(topic, 0) + int(entry.get("removed", 0))
        self._copies[topic] = entry.get("copies", [])
        if entry["status"] == "done":
            self.incomplete.pop(topic, None)
        else:
            self.incomplete[topic] = entry["error"]

    def told(self, copies: dict[str, list[str]]) -> dict[str, object]:
        named = {topic: names for topic, names in (copies | self._copies).items() if names}
        return {"excised": self.removed, "incomplete": self.incomplete, "copies": named}


def beside_the_log(copies: Sequence[str], count: int) -> str:
    """What to say of files that the broker does not read, and that may hold the same records."""
    more = [f"and {count - len(copies):,} more"] if count > len(copies) else []
    head = "Not looked into: copies that a repair or a start has set aside in the broker's data folder."
    what = "They may hold the same records; delete them if nothing in them is wanted:"
    return "\n  ".join([f"{head} {what}", *copies, *more])
