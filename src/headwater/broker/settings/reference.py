"""docs/settings.md, written from the tables; `docs/generate.py` calls `reference`, a test compares.

`DIFFERENCES` is the whole list of what Apache Kafka 4.3 answers otherwise about a name that both
have; the test that compares the two brokers takes its exceptions from here, so it cannot fall behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headwater.broker.settings import coordinators, group_types, limits, logs, node, security
from headwater.broker.settings.definitions import Definition, Kind, render
from headwater.broker.settings.group import GROUP
from headwater.broker.settings.oauthbearer import OAUTHBEARER
from headwater.broker.settings.subscription import SUBSCRIPTION
from headwater.broker.settings.topic import TOPIC

DIFFERENCES = {
    "allow.everyone.if.no.acl.found": "a setting of Kafka's authorizer, which Kafka does not show",
    "audit.delegates": "headwater's own",
    "audit.enable": "headwater's own",
    "broker.id": "not set, where Kafka has -1",
    "durability": "headwater's own",
    "errors.deadletterqueue.topic.name.prefix": "headwater's own so far: KIP-1191 is not in Kafka 4.3",
    "event.loop.turn.warn.ms": "headwater's own",
    "headwater.insecure": "headwater's own",
    "headwater.state.max.bytes": "headwater's own",
    "headwater.umask": "headwater's own",
    "listener.security.protocol.map": "read-only",
    "listeners": "loopback by default, and read-only",
    "log.dir": "`data/log`, where Kafka has a folder under `/tmp`",
    "log.min.free.bytes": "headwater's own",
    "min.insync.replicas": "a plain default; Kafka writes it down as a dynamic one at first start",
    "node.id": "1 by default, where Kafka asks for one",
    "offsets.topic.num.partitions": "1, where Kafka has 50: one node has no load to spread",
    "offsets.topic.replication.factor": "1, where Kafka has 3",
    "process.roles": "both roles by default",
    "queued.max.request.bytes": "128 MiB, where Kafka has no bound, and counts more than requests",
    "sasl.enabled.mechanisms": "SCRAM by default, where Kafka has GSSAPI; read-only",
    "share.coordinator.state.topic.min.isr": "1, where Kafka has 2",
    "share.coordinator.state.topic.num.partitions": "1, where Kafka has 50",
    "share.coordinator.state.topic.replication.factor": "1, where Kafka has 3",
    "share.dead.letters.enable": "headwater's own",
    "ssl.cipher.suites": "read-only",
    "ssl.client.auth": "read-only",
    "ssl.enabled.protocols": "read-only",
    "ssl.key.password": "read-only",
    "ssl.keystore.certificate.chain": "read-only",
    "ssl.keystore.key": "read-only",
    "ssl.keystore.type": "PEM, where Kafka has JKS; read-only",
    "ssl.truststore.certificates": "read-only",
    "ssl.truststore.type": "PEM, where Kafka has JKS; read-only",
    "super.users": "a setting of Kafka's authorizer, which Kafka does not show",
    "transaction.state.log.min.isr": "1, where Kafka has 2",
    "transaction.state.log.num.partitions": "1, where Kafka has 50",
    "transaction.state.log.replication.factor": "1, where Kafka has 3",
}

_HEAD = """\
# Settings

<!-- Written by `make docs` from src/headwater/broker/settings: change it there. -->

Settings have Apache Kafka's names, types and defaults, so that what you know of Kafka holds here and
what you write here holds there. `headwater settings` prints the same list.

## Where a value comes from

From weak to strong:

1. the default below,
2. what the broker was started with: `--config FILE` (Kafka's `server.properties` will do), then
   `--set NAME=VALUE`, or `settings={...}` in Python,
3. what was set for all brokers while running (a broker resource with an empty name),
4. what was set for this broker while running.

A topic's own config is stronger than all of them, for that topic. The last two and a topic's configs
are changed with any Kafka client or tool, and survive a restart:

    kafka-configs.sh --bootstrap-server localhost:9092 --alter \\
        --entity-type brokers --entity-default --add-config log.retention.ms=3600000
    kafka-configs.sh --bootstrap-server localhost:9092 --alter \\
        --entity-type topics --entity-name orders --add-config cleanup.policy=compact

**Changes** says when a setting may change: *running* (also through the config APIs) or *start* (only
when the broker starts). **No effect** marks what means replicas, threads or a controller, which one
node in one process does not have: it is taken, so that Kafka's files and tools work, and shown, and
does nothing. A name that is in neither table is refused, with the nearest one that is.
"""

_TAIL = """\
## What Apache Kafka does otherwise

Of the names that both have:

{differences}

And in general:

- A broker setting that nobody knows is refused (INVALID_CONFIG); Kafka keeps it for plug-ins.
- Kafka's settings for Kerberos, Java key stores, metrics reporters, remote storage,
  replication and its controller are not here.
- Where OAUTHBEARER is offered, issuer and audience must be named; keys may be found by discovery, and
  tokens that nobody has signed are never taken.
- `listener.name.NAME.SETTING` gives one listener its own value of a setting of SASL or TLS, and
  `listener.name.NAME.plain.sasl.jaas.config` its own PLAIN users. Secrets cannot be changed while
  running: they would have to be stored.
- The broker logger resource has headwater's own loggers, the topmost of them `headwater` instead of
  `root`.
- `flush.messages` and `flush.ms` do nothing: `durability` says when a record is on disk.
"""

_BROKER_TABLES = (
    ("Who the broker is", node.IDENTITY),
    ("Network and requests", node.NETWORK),
    ("Connections", limits.CONNECTIONS),
    ("Watching itself", node.WATCHING),
    ("Topics", node.TOPICS),
    ("Storage", node.STORAGE),
    ("Segments", logs.SEGMENTS),
    ("Room on the disk", logs.SPACE),
    ("Retention", logs.RETENTION),
    ("Compaction", logs.COMPACTION),
    ("Record batches", logs.MESSAGES),
    ("Flushing", logs.FLUSHING),
    ("Consumer groups", coordinators.GROUPS),
    ("Committed offsets", coordinators.OFFSETS),
    ("Producers", coordinators.PRODUCERS),
    ("Transactions", coordinators.TRANSACTIONS),
    ("Groups of the consumer protocol", group_types.CONSUMER_GROUPS),
    ("Streams groups", group_types.STREAMS_GROUPS),
    ("Share groups", (*group_types.SHARE_GROUPS, *coordinators.SHARES)),
    ("Quotas", limits.QUOTAS),
    ("Client metrics", limits.CLIENT_METRICS),
    ("Who may do what", security.ACCESS),
    ("SASL", security.SASL),
    ("SASL/OAUTHBEARER", OAUTHBEARER),
    ("TLS", security.TLS),
    ("Taken from Kafka's files", (*node.ACCEPTED, *coordinators.ACCEPTED, *security.ACCEPTED)),
)


def reference() -> str:
    """The whole page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    yield "## The broker's settings\n"
    for title, table in _BROKER_TABLES:
        yield f"### {title}\n"
        yield from _table(table, ("Changes", _changes))
    yield "## A topic's configs\n"
    yield "All of them may change while the broker runs.\n"
    yield from _table(TOPIC.values(), ("Default from", _default_from))
    yield "## A group's configs\n"
    yield "For consumer groups (KIP-848) and share groups (KIP-932), with `--entity-type groups`.\n"
    yield from _table(GROUP.values(), ("Default from", _default_from))
    yield "## A client metrics subscription's configs\n"
    yield "KIP-714, with `--entity-type client-metrics`.\n"
    yield from _table(SUBSCRIPTION.values(), ("Default from", _default_from))
    differences = "\n".join(f"- `{name}`: {text}." for name, text in sorted(DIFFERENCES.items()))
    yield _TAIL.format(differences=differences).rstrip()


def _table(
    table: Iterable[Definition], column: tuple[str, Callable[[Definition], str]]
) -> Iterator[str]:
    title, cell = column
    yield f"| Name | Type | Default | {title} | Meaning |"
    yield "|---|---|---|---|---|"
    for definition in table:
        meaning = definition.doc if definition.effect else f"{definition.doc} **No effect.**"
        if definition.check is not None and definition.kind is not Kind.BOOLEAN:
            meaning += f" Takes {definition.check.accepts}."
        yield (
            f"| `{definition.name}` | {definition.kind.name.lower()} | {_default(definition)} "
            f"| {cell(definition)} | {meaning} |"
        )
    yield ""


def _default(definition: Definition) -> str:
    text = render(definition.default)
    if text is None:
        return "not set"
    return f"`{text}`" if text else "empty"


def _changes(definition: Definition) -> str:
    return "running" if definition.dynamic else "start"


def _default_from(definition: Definition) -> str:
    return ", ".join(f"`{name}`" for name, _ in definition.synonyms)
