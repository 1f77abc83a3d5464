"""The sink's options. `stream_writer` and `batch_writer` read them on the driver; tasks get the result.

`topic` is where all rows go; `sink` names one of several writes to it inside a foreachBatch. `txnAppId` and
`txnVersion` name query and batch of a `df.write` where Spark does not (another thread than the stream's,
Spark Connect), as Delta Lake's options of these names do; `atLeastOnce` says that nobody replays the job.
`registry` and `registryId`: values are JSON, and written as the schema of that id has them; `format` is a
view's, of which these two are made.
`kafka.*` are client settings, as for the source. Those that a writer has and a reader has not:

    kafka.transaction.timeout.ms   900000: as long as a broker allows unless told otherwise. After that
                                   it takes back what a batch has written and not committed
    kafka.compression.type         none, gzip, snappy, lz4 or zstd
    kafka.batch.size               524288: bytes of a record batch, before compression
    kafka.delivery.timeout.ms      120000: how long a broker that is away is waited for
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.client.errors import BadOption
from headwater.client.options import Options
from headwater.record import codecs

BATCH_ONLY = ("txnAppId", "txnVersion", "atLeastOnce")
OPTIONS = (
    *("topic", "sink", "registry", "registryId", "format", *BATCH_ONLY),
    *("checkpointLocation", "queryName", "includeHeaders", "path"),
)
"""The last four are Spark's own, which it hands on; the Kafka sink, too, ignores includeHeaders."""

_REFUSED = {
    "transactional.id": "The sink makes its own, one for each task.",
    "key.serializer": "Keys are written as they are: cast the column.",
    "value.serializer": "Values are written as they are: cast the column.",
    "partitioner.class": "Rows go where Kafka's own partitioner sends them; the column partition wins.",
    "enable.idempotence": "The sink is always idempotent.",
    "isolation.level": "That is for readers.",
}
_APP_CHARACTERS_MAX = 200
_TIMEOUT_MS, _BATCH_BYTES, _DELIVERY_MS = 900_000, 512 * 1024, 120_000


@dataclass(frozen=True)
class Settings:
    topic: str | None
    name: str
    """Tells apart the writes of one foreachBatch: the option `sink`, or else the topic."""
    client: Mapping[str, str]
    codec: int
    batch_bytes: int
    transaction_timeout_ms: int
    delivery_timeout_s: float
    txn: tuple[str, int] | None = None
    """Query and batch, where the user named them: `txnAppId` and `txnVersion`."""
    at_least_once: bool = False
    """Whether a job that belongs to no batch may be written."""
    schema: tuple[str, int] | None = None
    """The registry and the id of the schema that values, which are JSON, are encoded by."""


def read(given: Mapping[str, str]) -> Settings:
    options = Options(given)
    options.refuse_unknown(OPTIONS, "sink")
    client = options.client_settings()
    for name, reason in _REFUSED.items():
        if name in client:
            raise BadOption(f"kafka.{name} cannot be set for the sink.", hint=reason)
    if client.get("acks", "all") not in ("all", "-1"):
        raise BadOption(
            f"kafka.acks is {client['acks']!r}.", hint="A transaction needs all: leave it out."
        )
    topic = options.text("topic")
    if topic is not None and not topic.strip():
        raise BadOption("The option topic is empty.", hint="Name the topic, or leave it out.")
    codec = options.choice("kafka.compression.type", codecs.NAMES, "none")
    timeout_ms = options.number("kafka.transaction.timeout.ms", _TIMEOUT_MS)
    batch_bytes = options.number("kafka.batch.size", _BATCH_BYTES)
    delivery_ms = options.number("kafka.delivery.timeout.ms", _DELIVERY_MS)
    assert timeout_ms and batch_bytes and delivery_ms
    name = options.text("sink") or topic or "*"
    return Settings(
        topic,
        name,
        client,
        codecs.NAMES.index(codec),
        batch_bytes,
        timeout_ms,
        delivery_ms / 1000,
        _txn(options),
        options.flag("atLeastOnce", False),
        _schema(options),
    )


def _schema(options: Options) -> tuple[str, int] | None:
    registry, identity = options.text("registry"), options.number("registryId")
    if (options.text("format") or "json") != "json" and identity is None:
        raise BadOption("format is for views.", hint="Here, name a schema with registryId.")
    if registry is None or identity is None:
        if registry is not None or identity is not None:
            raise BadOption("registry and registryId belong together.")
        return None
    return registry, identity


def _txn(options: Options) -> tuple[str, int] | None:
    app, version = options.text("txnAppId"), options.number("txnVersion", least=0)
    if app is None and version is None:
        return None
    if app is None or version is None:
        given, missing = (
            ("txnAppId", "txnVersion") if app is not None else ("txnVersion", "txnAppId")
        )
        raise BadOption(
            f"{given} is given without {missing}.",
            hint="txnAppId names the query, the same in every run; txnVersion its batch.",
        )
    if not 0 < len(app) <= _APP_CHARACTERS_MAX or not app.isprintable():
        raise BadOption(
            f"txnAppId is {app!r}.",
            hint=f"It must be a text of 1 to {_APP_CHARACTERS_MAX} characters.",
        )
    return app, version
