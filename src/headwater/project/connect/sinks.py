"""Sinks of Kafka Connect as views: where the rows go is a section, which rows they are is a pipeline."""

from __future__ import annotations

import json
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from headwater.project.connect.configuration import Configuration, NotUnderstood
from headwater.project.connect.known import INDEX, JDBC
from headwater.project.connect.section import Outcome, safe_name, secret, tell_the_rest

KINDS = frozenset(
    {
        "JdbcSinkConnector",
        "ElasticsearchSinkConnector",
        "OpensearchSinkConnector",
        "OpenSearchSinkConnector",
    }
)
_PIPELINE = """@hw.view("{view}", key={key})
def {function}():
    return hw.table({topic}){chosen}
"""
_KEEPS_DELETED = (
    "{name}: the sink kept rows that were deleted, or stopped; a view deletes what the log deletes. To keep "
    'them, give the view kind="history" (docs/views.md).'
)
_DELETES = "delete"
"""Of `behavior.on.null.values`."""


def view_of(configuration: Configuration) -> Outcome:
    outcome = Outcome()
    kind = configuration.kind
    topics = configuration.words("topics")
    if not topics:
        raise NotUnderstood(
            "the sink names no topics",
            hint="write topics=… into the file; a pattern cannot be followed",
        )
    is_table = kind == "JdbcSinkConnector"
    keys = [*configuration.words("pk.fields"), *configuration.words("primary.key.fields")]
    _about_keys(configuration, outcome)
    _about_deletes(configuration, outcome, is_table=is_table)
    if not keys:
        outcome.notes.append(
            "The key is not in the connector's file: put the column's name in place of id."
        )
    mode = configuration.take("insert.mode", "insert" if is_table else "upsert")
    if mode.lower() != "upsert":
        outcome.notes.append(
            f"insert.mode={mode}: a view has one row per key, so rows are upserted."
        )
    address = _database if is_table else _index
    to = address(configuration, outcome, safe_name(configuration.name).upper())
    key = _literal(keys[0] if len(keys) == 1 else keys or "id")
    views = {_view(configuration, topic): topic for topic in topics}
    outcome.sections = {f"views.{view}": {"to": to} for view in views}
    chosen = _chosen(configuration, keys)
    outcome.pipeline = "import headwater as hw\n\n\n" + "\n\n".join(
        _PIPELINE.format(
            view=view, key=key, function=_function(view), topic=_literal(topic), chosen=chosen
        )
        for view, topic in views.items()
    )
    outcome.notes.append(
        "hw.table reads records of changes (Debezium's envelope); for plain events use hw.stream."
    )
    tell_the_rest(configuration, outcome, JDBC if is_table else INDEX)
    return outcome


def _about_keys(configuration: Configuration, outcome: Outcome) -> None:
    for name in ("pk.mode", "primary.key.mode"):
        mode = configuration.take(name)
        if mode.lower() in ("kafka", "none"):
            outcome.notes.append(
                f"{name}={mode}: the sink wrote a row for each record; a view of records, not of the latest "
                "row of each key, is hw.stream without a key."
            )
    if configuration.flag("key.ignore", False):
        outcome.notes.append(
            "key.ignore=true: the sink wrote a document for each record; a view of records is hw.stream "
            "without a key."
        )


def _about_deletes(configuration: Configuration, outcome: Outcome, *, is_table: bool) -> None:
    """A view deletes what the log deletes; a sink only where it is told to."""
    if is_table:
        if not configuration.flag("delete.enabled", False):
            outcome.notes.append(_KEEPS_DELETED.format(name="delete.enabled=false"))
        return
    mode = configuration.take("behavior.on.null.values", "fail")
    if mode.lower() != _DELETES:
        outcome.notes.append(_KEEPS_DELETED.format(name=f"behavior.on.null.values={mode}"))


def _chosen(configuration: Configuration, keys: list[str]) -> str:
    """The columns that the sink was told to write, as the end of the pipeline's line."""
    named = [
        field.rpartition(":")[2]  # Debezium's may begin with a topic
        for name in ("fields.whitelist", "fields.include.list", "field.include.list")
        for field in configuration.words(name)
    ]
    if not named:
        return ""
    return f".select({', '.join(map(_literal, dict.fromkeys([*keys, *named])))})"


def _view(configuration: Configuration, topic: str) -> str:
    """As the sink calls its table."""
    pattern = configuration.take("table.name.format") or configuration.take(
        "collection.name.format"
    )
    named = pattern.replace("${topic}", topic) if pattern else topic
    return safe_name(named.rpartition(".")[2])


def _database(configuration: Configuration, outcome: Outcome, name: str) -> str:
    """jdbc:postgresql://host:5432/db → postgresql://user:${…}@host:5432/db."""
    url = configuration.take("connection.url").removeprefix("jdbc:")
    if url.startswith("sqlite:"):
        return url
    parts = _split(url)
    if parts.scheme != "postgresql":
        raise NotUnderstood(
            f"there is no target for {parts.scheme or url}: views go to PostgreSQL, SQLite, DuckDB, Delta, "
            "Redis, search indexes, OpenSearch, files and topics",
            hint="a class of your own is a target, too: docs/targets.md",
        )
    user = configuration.take("connection.user") or configuration.take("connection.username")
    password = secret(configuration, "connection.password", outcome, f"{name}_PASSWORD")
    login = (
        f"{quote(user, safe='')}:{password}@"
        if password
        else f"{quote(user, safe='')}@"
        if user
        else ""
    )
    if parts.query:
        names = ", ".join(name for name, _ in parse_qsl(parts.query, keep_blank_values=True))
        outcome.notes.append(f"Parameters of the JDBC address were left out: {names}")
    return f"postgresql://{login}{parts.netloc.rpartition('@')[2]}{parts.path}"


def _index(configuration: Configuration, outcome: Outcome, name: str) -> str:
    """http://host:9200 → elasticsearch+http://user:${…}@host:9200."""
    urls = configuration.words("connection.url")
    if len(urls) > 1:
        outcome.notes.append("A view is written through one address; the first was taken.")
    parts = _split(urls[0] if urls else "http://127.0.0.1:9200")
    user = quote(configuration.take("connection.username"), safe="")
    password = secret(configuration, "connection.password", outcome, f"{name}_PASSWORD")
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    store = "elasticsearch" if configuration.kind.startswith("Elastic") else "opensearch"
    return f"{store}+{parts.scheme}://{login}{parts.netloc.rpartition('@')[2]}{parts.path}"


def _literal(value: str | list[str]) -> str:
    """In the pipeline's code: whatever a connector's file says stays a text there."""
    return json.dumps(value, ensure_ascii=False)


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as error:  # it may hold a password: not shown
        raise NotUnderstood(
            f"connection.url is no address: {error}", hint="put it right in the connector's file"
        ) from None


def _function(view: str) -> str:
    return f"view_{view}" if view[:1].isdigit() else view
