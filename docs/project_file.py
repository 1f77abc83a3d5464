"""The page of headwater.toml's keys, from the code that reads it; called by generate.py.

What a key means is said here, once; that each key of the code has its words, and no other, is checked
when the page is written.
"""

from __future__ import annotations

import dataclasses

from headwater.capture.setting_forms import COMMON as CAPTURE
from headwater.edges.config import KINDS, Edges, Limits
from headwater.edges.registry.config import RegistryConfig
from headwater.project.file import _SECTIONS as SECTIONS
from headwater.project.file import Project
from headwater.project.ports import CONNECTIONS_PER_ADDRESS

HEAD = """
# headwater.toml

The file of a [project](projects.md). It is checked as a whole before anything starts: every mistake is told
at once, each with its line and how to fix it; a section or a key that does not exist is a mistake. `${NAME}`
in an address is taken from the environment, so that no secret stands in the file. Paths are those of the
file's folder. `headwater doctor` checks the file and all that it names. `format = 1`, before the
first section, is the version of the file's format; it is 1 where it is missing, and one that this version of
headwater does not know is refused.
"""

MEANING = {
    "log.data": "The folder of the project's own log, served by a broker under `headwater up`.",
    "log.listen": "Where that broker listens.",
    "log.bootstrap": "The log is another's: Apache Kafka, or a broker that runs already. Instead of `data`.",
    "log.settings": "Of the broker, by Kafka's names; [all of them](settings.md).",
    "spark.master": "Where queries run: `local[*]`, `local[2]`, `spark://HOST:7077`.",
    "spark.remote": "A Spark Connect server instead: `sc://HOST:15002`.",
    "spark.checkpoints": "Where queries keep what Spark needs to go on; shared storage for a cluster.",
    "spark.conf": "Any settings of Spark.",
    "pipelines.paths": "Files and folders of [queries](pipelines.md).",
    "pipelines.batch_records_max": "How many records a batch of a query takes, where the query does not say.",
    "pipelines.batch_bytes_max": "About how many bytes such a batch takes, where the query does not say.",
    "console.listen": "Where the web page is; the section alone is enough to have it.",
    "console.read_only": "The page only shows, and changes nothing.",
    "console.connections_per_address": "That one address (of IPv6: one /64) may have; one more is closed at "
    "once, and three quarters of those that the process has files for are the most. 0: no limit.",
    "console.tls": "`true`: by the `ssl.…` of `[log.settings]`; or a section with such settings: "
    "[Security](security.md#the-edges-and-the-console).",
    "console.token": "Who has this word may come in, as administrator; from the environment or a file.",
    "console.tokens": "A section with a token for a [role](console.md#who-may-see-and-do-what): "
    "`reader`, `operator`, `administrator`.",
    "console.users": "A section with the broker's users who may sign in, and their roles: "
    '`ann = "operator"`; `"*"` stands for every other user.',
    "console.oidc": "A section for signing in by an issuer: "
    "[Security](security.md#signing-in-to-the-console-by-an-issuer).",
    "console.session_minutes": "How long a visitor stays signed in.",
    "console.proxies": "Addresses or networks of proxies in front of it: their `X-Forwarded-For` says who "
    "guesses at the login, their `X-Forwarded-Proto` whether the browser came by TLS.",
}
DEFAULT = {
    "log.data": Project.data,
    "log.listen": Project.listen,
    "spark.master": Project.master,
    "spark.checkpoints": Project.checkpoints,
    "pipelines.paths": "`pipelines`, where there is such a folder",
    "pipelines.batch_records_max": str(Project.batch_records_max),
    "pipelines.batch_bytes_max": str(Project.batch_bytes_max),
    "console.read_only": "false",
    "console.session_minutes": "720",
    "console.proxies": "none",
    "console.connections_per_address": str(CONNECTIONS_PER_ADDRESS),
    "console.tls": "false",
}
CAPTURE_MEANING = {
    "tables": "Which tables or collections; all that the source has, where it is left out.",
    "format": "`json`; with a registry also `avro`, `protobuf` and `json-schema`. Default `json`.",
    "registry": "Where schemas are registered. Default: that of `[schemas]`, or `HEADWATER_REGISTRY`.",
    "schema": "Each JSON record carries its schema, as Kafka Connect's converter has it. Default `false`.",
    "tombstones": "A record without a value behind each delete, for compaction. Default `true`.",
    "transactions": "BEGIN and END of each source transaction on `NAME.transaction`. Default `true`.",
    "topic_config": 'Configs of topics that are created. Default `{ "retention.ms" = "-1" }`.',
    "partitions": "Of topics that are created. Default: the broker's.",
    "snapshot_rows_per_second": "What the first snapshot asks of its database at most. Default 0: no limit.",
    "snapshot_max_lag_s": "The first snapshot waits while a replica is further behind. Default 0: never.",
    "record_bytes_max": "A larger record becomes a dead letter in `NAME.dead-letters`. Default 67108864.",
    "outbox": "A table whose rows are events for the topics that they name.",
    "traced": "Share of streamed records with a `traceparent`. Default: `ratio` of `[edges.tracing]`, or 0.",
}

EDGES_LIMITS = {
    "body_bytes": "Of one request; a larger one is answered with 413.",
    "waiting_bytes": "Of all that is on its way to the log; beyond it, requests are answered with 429.",
    "requests_per_second": "Of one token, or of one address where there are none; then 429. 0: no limit.",
    "bytes_per_second": "Of its bodies and answers; beyond it new requests get 429. 0: no limit.",
    "requests_at_once": "Of it, changefeeds included; beyond it 429. 0: no limit.",
    "connections_per_address": "As that of `[console]`.",
    "clients": "Changefeeds open at once.",
    "client_buffer_bytes": "What one changefeed may lag behind in memory before it is dropped.",
    "consumers": "Members of consumer groups by HTTP at once; beyond it 429.",
    "consumers_per_token": "Of one token, or of one address where there are none.",
    "consumer_idle_seconds": "One that nobody has asked for so long is closed.",
    "slow_seconds": "A body that takes longer, or a feed or answer that is not taken for so long, is ended.",
}
EDGES_KINDS = {
    "tokens": "Who may read and write what: [HTTP in](http.md).",
    "topics": "A JSON Schema for what comes in: [HTTP in](http.md).",
    "hooks": "Webhooks in: [Webhooks](webhooks.md).",
    "webhooks": "Webhooks out: [Webhooks](webhooks.md).",
    "alerts": "Rules that tell somebody: [Webhooks and alerts](webhooks.md).",
    "bridges": "UDP, StatsD, multicast: [Devices](devices.md); ZeroMQ, MQTT, AMQP: [Bridges](bridges.md).",
}


def page() -> str:
    parts = [HEAD]
    for section, keys in SECTIONS.items():
        parts.append(f"## [{section}]\n\n| key | default | |\n|---|---|---|")
        rows = [_row(f"{section}.{key}", key) for key in keys]
        parts.append("\n".join(rows) + "\n")
    _refuse_others(
        MEANING, {f"{section}.{key}" for section in SECTIONS for key in SECTIONS[section]}
    )
    _refuse_others(CAPTURE_MEANING, set(CAPTURE))
    parts.append(
        "## [capture.NAME]\n\nA database whose changes go into topics `NAME.TABLE`; "
        "[how](capture.md).\n\n| key | |\n|---|---|\n| `from` | Its address; must be there. |"
    )
    parts.append("\n".join(f"| `{key}` | {CAPTURE_MEANING[key]} |" for key in CAPTURE))
    parts.append(
        "\nEach kind of source has more: [PostgreSQL](capture.md), [MariaDB and MySQL](capture-mysql.md), "
        "[SQLite](capture-sqlite.md), [MongoDB](capture-mongodb.md).\n"
    )
    parts.append(
        "## [views.NAME]\n\nWhere the view of this name lives; without it, where its own `to=` says.\n\n"
        "| key | |\n|---|---|\n| `to` | The [target](targets.md), as in `sqlite:data/views.db`; "
        "must be there. |\n"
    )
    parts.append(_edges())
    parts.append(_schemas())
    return "\n".join(parts)


def _edges() -> str:
    limits = {each.name: each.default for each in dataclasses.fields(Limits)}
    _refuse_others(EDGES_LIMITS, set(limits))
    _refuse_others(EDGES_KINDS, set(KINDS))
    lines = ["## [edges]\n", "`headwater edges`: [HTTP, webhooks, devices, bridges](edges.md).\n"]
    lines += ["| key | default | |", "|---|---|---|"]
    lines += [
        f"| `listen` | `{Edges.listen}` | Where HTTP is served; elsewhere only with tokens. |"
    ]
    lines += ["| `origins` | | Pages that browsers may call us from. |"]
    lines += ["| `tls` | `false` | As `tls` of `[console]`. |"]
    lines += [f"| `name` | `{Edges.name}` | Of this process, where several serve one log. |"]
    lines += ["\n## [edges.limits]\n", "| key | default | |", "|---|---|---|"]
    lines += [f"| `{name}` | `{limits[name]}` | {words} |" for name, words in EDGES_LIMITS.items()]
    lines += ["\n## [edges.KIND.NAME]\n", "| section | |", "|---|---|"]
    lines += [f"| `[edges.{kind}.NAME]` | {words} |" for kind, words in EDGES_KINDS.items()]
    lines += [
        "| `[edges.oidc]` | Tokens of an issuer, and what its groups may do: "
        "[Security](security.md#tokens-of-an-issuer-at-the-edges). |"
    ]
    lines += [
        "| `[edges.subscriptions]` | Webhook subscriptions by API: "
        "[Webhooks](webhooks.md#subscriptions-by-api). |"
    ]
    lines += ["| `[edges.tracing]` | Traces from capture to view: [Monitoring](monitoring.md). |\n"]
    return "\n".join(lines)


def _schemas() -> str:
    lines = ["## [schemas]\n", "`headwater schemas serve`: [a schema registry](schemas.md).\n"]
    lines += ["| key | default | |", "|---|---|---|"]
    lines += [
        f"| `listen` | `{RegistryConfig.listen}` | Where it is served; elsewhere only with tokens. |",
        "| `tls` | `false` | As `tls` of `[console]`. |",
        f"| `connections_per_address` | `{RegistryConfig.connections_per_address}` "
        "| As that of `[console]`. |",
        f"| `topic` | `{RegistryConfig.topic}` | Where its state is kept. |",
        "| `registry` | the one that is served | Where the project's parts ask; without `listen`, none "
        "is served then. |",
        "\n`[schemas.tokens.NAME]`: who may read, write and administer which "
        "[subjects](schemas.md#who-may).\n",
    ]
    return "\n".join(lines)


def _row(full: str, key: str) -> str:
    default = DEFAULT.get(full, "")
    shown = f"`{default}`" if default and "`" not in default else default
    return f"| `{key}` | {shown} | {MEANING[full]} |"


def _refuse_others(explained: dict[str, str], there: set[str]) -> None:
    assert set(explained) == there, (
        f"keys without words, or words without a key: {set(explained) ^ there}"
    )
