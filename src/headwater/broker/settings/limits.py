"""Settings of the broker for what clients may take: connections, quotas and client metrics. Read by `values`.

The quotas themselves are no settings: they belong to users, clients and addresses, and are set with
AlterClientQuotas.
"""

from __future__ import annotations

from headwater.broker.settings.definitions import CLUSTER_WIDE, INT_MAX, Definition, Kind, at_least

CONNECTIONS = (
    Definition(
        "max.connections",
        Kind.INT,
        INT_MAX,
        "Connections open at one time, TLS handshakes too; one more is closed at once. It cannot be 0."
        " Where it is not set, there is one for each 16 KiB of `queued.max.request.bytes`, at least"
        " 1,000; whoever is silent for longest makes room for others then, as where descriptors run"
        " short.",
        at_least(1),
        CLUSTER_WIDE,
    ),
    Definition(
        "max.connections.per.ip",
        Kind.INT,
        INT_MAX,
        "The same bound for each client address, an IPv6 one too: each by itself, as in Kafka.",
        at_least(1),
        CLUSTER_WIDE,
    ),
)

QUOTAS = (
    Definition(
        "quota.window.num",
        Kind.INT,
        11,
        "Windows that a rate under a quota is measured over.",
        at_least(1),
    ),
    Definition(
        "quota.window.size.seconds", Kind.INT, 1, "Length of each of these windows.", at_least(1)
    ),
    Definition(
        "controller.quota.window.num",
        Kind.INT,
        11,
        "The same for the rate of topics and partitions created and deleted.",
        at_least(1),
    ),
    Definition(
        "controller.quota.window.size.seconds",
        Kind.INT,
        1,
        "Length of each of these windows.",
        at_least(1),
    ),
)

CLIENT_METRICS = (
    Definition(
        "telemetry.max.bytes",
        Kind.INT,
        1_048_576,
        "Most bytes, after decompression, of the metrics that a client may push at once.",
        at_least(1),
    ),
)

LIMITS = (*CONNECTIONS, *QUOTAS, *CLIENT_METRICS)
