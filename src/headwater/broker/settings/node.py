"""The broker's own settings: who it is, where it listens, what it bears. Read by `values`.

A definition with `effect=False` is in Kafka's stock `server.properties` or means replicas, threads
or a controller, which one node in one process does not have: it is taken, shown, and does nothing.
"""

from __future__ import annotations

from headwater.broker.settings.definitions import (
    CLUSTER_WIDE,
    Check,
    Definition,
    Kind,
    at_least,
    items_of,
    one_of,
)

_ONE_DIRECTORY = Check(
    lambda value: None if len(value) == 1 else "headwater keeps its log in exactly one directory",
    "one directory",
)
_SOME_LISTENER = Check(
    lambda value: None if value else "At least one listener is needed", "NAME://HOST:PORT, …"
)

IDENTITY = (
    Definition("node.id", Kind.INT, 1, "Number by which clients know this broker.", at_least(0)),
    Definition("broker.id", Kind.INT, None, "Older name of node.id, used where that is not set."),
    Definition("broker.rack", Kind.STRING, None, "Rack that Metadata and DescribeCluster report."),
)

NETWORK = (
    Definition(
        "listeners",
        Kind.LIST,
        ["PLAINTEXT://127.0.0.1:9092"],
        "Addresses to listen on; loopback unless told otherwise.",
        _SOME_LISTENER,
    ),
    Definition(
        "advertised.listeners",
        Kind.LIST,
        None,
        "Addresses that clients are told to use, where they differ from listeners.",
    ),
    Definition(
        "listener.security.protocol.map",
        Kind.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Security protocol of each listener name: NAME:PROTOCOL, ….",
    ),
    Definition(
        "socket.request.max.bytes",
        Kind.INT,
        100 * 1024**2,
        "Largest request; a longer one closes its connection.",
        at_least(1),
    ),
    Definition(
        "headwater.state.max.bytes",
        Kind.LONG,
        256 * 1024**2,
        "What clients can leave behind in all: groups, their members and committed offsets,"
        " transactional ids, share groups, and what is remembered of idempotent producers (up to half"
        " of it). Beyond it new ones are refused; those that are there go on. -1 for no bound.",
        at_least(-1),
    ),
    Definition(
        "headwater.umask",
        Kind.STRING,
        "077",
        "Rights that the files of the data folder do not give, as `umask` has them: by default only the"
        " broker's own user reads them. For `headwater broker`; a test's broker leaves it alone.",
        one_of("077", "027", "022", "007", "002"),
    ),
    Definition(
        "queued.max.request.bytes",
        Kind.LONG,
        128 * 1024**2,
        "Memory for all that clients can make the broker hold: requests that are coming in or being"
        " worked on, decompressed records, answers not yet taken. Where it is used up, reading from"
        " sockets pauses. -1 for no bound.",
        at_least(-1),
    ),
    Definition(
        "connections.max.idle.ms",
        Kind.LONG,
        600_000,
        "A connection silent for so long is closed; negative for never.",
    ),
    Definition(
        "socket.listen.backlog.size",
        Kind.INT,
        50,
        "Connections that the kernel may hold before they are accepted.",
        at_least(1),
    ),
    Definition(
        "socket.send.buffer.bytes",
        Kind.INT,
        102_400,
        "SO_SNDBUF of client sockets; the kernel chooses it here.",
        effect=False,
    ),
    Definition(
        "socket.receive.buffer.bytes",
        Kind.INT,
        102_400,
        "SO_RCVBUF of client sockets; the kernel chooses it here.",
        effect=False,
    ),
    Definition(
        "fetch.max.bytes",
        Kind.INT,
        55 * 1024**2,
        "Most bytes in one Fetch response, whatever the client asks for.",
        at_least(1024),
    ),
    Definition(
        "max.incremental.fetch.session.cache.slots",
        Kind.INT,
        1000,
        "Fetch sessions remembered; beyond it the least used is forgotten, 0 means none.",
        at_least(0),
    ),
    Definition(
        "max.request.partition.size.limit",
        Kind.INT,
        2000,
        "Most partitions in one DescribeTopicPartitions response.",
        at_least(1),
    ),
)

TOPICS = (
    Definition(
        "num.partitions",
        Kind.INT,
        1,
        "Partitions of a topic whose creator does not say how many.",
        at_least(1),
    ),
    Definition(
        "auto.create.topics.enable",
        Kind.BOOLEAN,
        True,
        "Whether a Metadata request may create the topics it names.",
    ),
    Definition(
        "delete.topic.enable", Kind.BOOLEAN, True, "Whether DeleteTopics is allowed at all."
    ),
    Definition(
        "default.replication.factor",
        Kind.INT,
        1,
        "Replicas of a topic whose creator does not say how many; one node keeps one.",
        at_least(1),
        effect=False,
    ),
    Definition(
        "min.insync.replicas",
        Kind.INT,
        1,
        "Replicas that must have an acks=all record; one node is always all of them.",
        at_least(1),
        CLUSTER_WIDE,
        effect=False,
    ),
    Definition(
        "unclean.leader.election.enable",
        Kind.BOOLEAN,
        False,
        "Whether a replica that lags may lead; there is only one.",
        None,
        CLUSTER_WIDE,
        effect=False,
    ),
)

STORAGE = (
    Definition(
        "log.dirs",
        Kind.LIST,
        None,
        "The data directory; where not set, log.dir.",
        _ONE_DIRECTORY,
    ),
    Definition("log.dir", Kind.LIST, ["data/log"], "The data directory.", _ONE_DIRECTORY),
    Definition(
        "durability",
        Kind.STRING,
        "disk",
        "When a record counts as written: disk, after fdatasync; os, after the write call, "
        "which is Kafka's habit and loses the latest records with the power.",
        one_of("disk", "os"),
        CLUSTER_WIDE,
    ),
)


WATCHING = (
    Definition(
        "event.loop.turn.warn.ms",
        Kind.INT,
        100,
        "A turn of the event loop that takes longer is logged with its stack and counted in "
        "__headwater_health; 0: none is.",
        at_least(0),
        CLUSTER_WIDE,
    ),
)


def _ignored(name: str, kind: Kind, default: object, doc: str, update: str) -> Definition:
    check = at_least(1) if kind is Kind.INT else None
    return Definition(name, kind, default, doc, check, update, effect=False)


ACCEPTED = (
    Definition(
        "process.roles",
        Kind.LIST,
        ["broker", "controller"],
        "This process is both, always.",
        items_of("broker", "controller"),
        effect=False,
    ),
    _ignored("controller.quorum.voters", Kind.LIST, [], "There is no quorum.", "read-only"),
    _ignored(
        "controller.quorum.bootstrap.servers", Kind.LIST, [], "There is no quorum.", "read-only"
    ),
    _ignored(
        "controller.listener.names",
        Kind.LIST,
        None,
        "Listeners of this name are left out: there is no controller to reach.",
        "read-only",
    ),
    _ignored(
        "inter.broker.listener.name", Kind.STRING, None, "There is no other broker.", "read-only"
    ),
    _ignored("num.network.threads", Kind.INT, 3, "One event loop does it.", CLUSTER_WIDE),
    _ignored("num.io.threads", Kind.INT, 8, "One event loop does it.", CLUSTER_WIDE),
    _ignored("background.threads", Kind.INT, 10, "One event loop does it.", CLUSTER_WIDE),
    _ignored("queued.max.requests", Kind.INT, 500, "Bytes are bounded instead.", "read-only"),
    _ignored(
        "num.recovery.threads.per.data.dir",
        Kind.INT,
        2,
        "Recovery reads the tail of each log only.",
        CLUSTER_WIDE,
    ),
    _ignored("num.replica.fetchers", Kind.INT, 1, "There is nobody to follow.", CLUSTER_WIDE),
)

NODE = (*IDENTITY, *NETWORK, *TOPICS, *STORAGE, *WATCHING, *ACCEPTED)
