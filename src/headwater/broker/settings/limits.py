"""Settings of the broker for what clients may take: quotas and client metrics. Read by `values`.

The quotas themselves are no settings: they belong to users, clients and addresses, and are set with
AlterClientQuotas.
"""

from __future__ import annotations

from headwater.broker.settings.definitions import Definition, Kind, at_least

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

LIMITS = (*QUOTAS, *CLIENT_METRICS)
