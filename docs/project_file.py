"""The page of headwater.toml's keys, from the code that reads it; called by generate.py.

What a key means is said here, once; that each key of the code has its words, and no other, is checked
when the page is written.
"""

from __future__ import annotations

from headwater.capture.config import _COMMON as CAPTURE
from headwater.project.file import _SECTIONS as SECTIONS
from headwater.project.file import Project

HEAD = """
# headwater.toml

The file of a [project](projects.md). It is checked as a whole before anything starts: every mistake is told
at once, each with its line and what mends it; a section or a key that does not exist is a mistake. `${NAME}`
in an address is taken from the environment, so that no secret stands in the file. Paths are those of the
file's folder. `headwater doctor` checks the file and all that it names.
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
    "console.listen": "Where the web page is; the section alone is enough to have it.",
    "console.read_only": "The page only shows, and changes nothing.",
    "console.token": "Who may look: everybody with this word, from the environment.",
}
DEFAULT = {
    "log.data": Project.data,
    "log.listen": Project.listen,
    "spark.master": Project.master,
    "spark.checkpoints": Project.checkpoints,
    "pipelines.paths": "`pipelines`, where there is such a folder",
    "console.read_only": "false",
}
CAPTURE_MEANING = {
    "tables": "Which tables or collections; all that the source has, where it is left out.",
    "format": "`json`, or `avro` with its schemas on the topic `NAME.avro-schemas`.",
    "schema": "Each JSON record carries its schema, as Kafka Connect's converter has it. Default `false`.",
    "tombstones": "A record without a value behind each delete, for compaction. Default `true`.",
    "transactions": "BEGIN and END of each source transaction on `NAME.transaction`. Default `true`.",
    "topic_config": 'Configs of topics that are created. Default `{ "retention.ms" = "-1" }`.',
    "partitions": "Of topics that are created. Default: the broker's.",
    "outbox": "A table whose rows are events for the topics that they name.",
    "traced": "Share of streamed records with a `traceparent`. Default: `ratio` of `[edges.tracing]`, or 0.",
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
    return "\n".join(parts)


def _row(full: str, key: str) -> str:
    default = DEFAULT.get(full, "")
    shown = f"`{default}`" if default and "`" not in default else default
    return f"| `{key}` | {shown} | {MEANING[full]} |"


def _refuse_others(explained: dict[str, str], there: set[str]) -> None:
    assert set(explained) == there, (
        f"keys without words, or words without a key: {set(explained) ^ there}"
    )
