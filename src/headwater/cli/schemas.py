"""`headwater schemas`: serve a schema registry; list, show, register, check and compare what is in one."""

from __future__ import annotations

from pathlib import Path

import typer

from headwater.cli.admin import (
    DEFAULT_BOOTSTRAP,
    bootstrap_option,
    json_option,
    opened,
    print_json,
    print_table,
)
from headwater.cli.properties import client_config
from headwater.cli.registry_words import (
    asked,
    ca_option,
    file_argument,
    kind_option,
    read,
    references_option,
    registry_option,
    subject_argument,
)
from headwater.cli.service_words import listen_option, log_option, project_option, say

schemas = typer.Typer(
    no_args_is_help=True, help="Serve a schema registry; list, show, register, compare schemas."
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(schemas, name="schemas")


@schemas.command("serve")
def serve(
    project: Path | None = project_option(),
    bootstrap: str | None = log_option(),
    listen: str | None = listen_option("127.0.0.1:8081"),
    topic: str | None = typer.Option(
        None, "--topic", metavar="TOPIC", help="Where its state is kept; _schemas by default."
    ),
) -> None:
    """Serve a registry with Confluent's interface until Ctrl-C or SIGTERM.

    Its state is a compacted topic, in headwater's log or in Apache Kafka. Several may serve one topic: each
    change is made by one of them at a time, and all see it. Who may do what, and TLS, stand under
    [schemas] in headwater.toml; without tokens it listens on this machine only. headwater up runs it, too.

    Example: headwater schemas serve --bootstrap 127.0.0.1:9092 --listen 127.0.0.1:8081
    """
    from headwater.edges.registry import server

    words = server.Words(project, bootstrap, listen, topic)
    server.serve(words, client_config(), say, default_bootstrap=DEFAULT_BOOTSTRAP)


@schemas.command("list")
def list_(
    prefix: str = typer.Argument("", metavar="[PREFIX]", help="Only subjects that begin so."),
    registry: str = registry_option(),
    ca: Path | None = ca_option(),
    deleted: bool = typer.Option(False, "--deleted", help="Also those that are soft deleted."),
    as_json: bool = json_option(),
) -> None:
    """List subjects: versions, the latest one's id and type, the level in force.

    Example: headwater schemas list orders
    """
    rows: list[list[object]] = []
    with asked(registry, ca) as client:
        for subject in client.subjects(prefix, deleted=deleted):
            latest = client.version(subject, deleted=deleted)
            numbers = client.versions(subject, deleted=deleted)
            kind = latest.schema.kind
            rows.append(
                [subject, len(numbers), latest.version, latest.id, kind, client.level(subject)]
            )
    heads = ["SUBJECT", "VERSIONS", "LATEST", "ID", "TYPE", "LEVEL"]
    if as_json:
        print_json([dict(zip([h.lower() for h in heads], row, strict=True)) for row in rows])
    elif rows:
        print_table(heads, rows)
    else:
        print("No subjects: nothing has been registered yet")


@schemas.command("show")
def show(
    subject: str = subject_argument(),
    version: int | None = typer.Argument(None, metavar="[VERSION]", help="The latest if left out."),
    registry: str = registry_option(),
    ca: Path | None = ca_option(),
    as_json: bool = json_option(),
) -> None:
    """Show a version's schema.

    Example: headwater schemas show orders-value 2
    """
    from headwater.browse.subjects import lines

    with asked(registry, ca) as client:
        found = client.version(subject, version)
    if as_json:
        print_json(
            {
                "subject": found.subject,
                "version": found.version,
                "id": found.id,
                "type": found.schema.kind,
                "references": [each.as_json() for each in found.schema.references],
                "schema": found.schema.text,
            }
        )
        return
    print(f"# {found.subject}, version {found.version}, id {found.id}, {found.schema.kind}")
    for each in found.schema.references:
        print(f"# refers to {each.name}: {each.subject}, version {each.version}")
    print("\n".join(lines(found.schema)))


@schemas.command("register")
def register(
    subject: str = subject_argument(),
    file: Path = file_argument(),
    kind: str | None = kind_option(),
    reference: list[str] = references_option(),
    normalize: bool = typer.Option(False, "--normalize", help="Keep it in its one normal form."),
    registry: str = registry_option(),
    ca: Path | None = ca_option(),
) -> None:
    """Register a schema, and print its id.

    Example: headwater schemas register orders-value order.avsc
    """
    with asked(registry, ca) as client:
        print(client.register(subject, read(file, kind, reference), normalize=normalize))


@schemas.command("check")
def check(
    subject: str = subject_argument(),
    file: Path = file_argument(),
    kind: str | None = kind_option(),
    reference: list[str] = references_option(),
    registry: str = registry_option(),
    ca: Path | None = ca_option(),
) -> int:
    """Say whether a schema could be the subject's next version, and if not why. Exits with 1 if not.

    Example: headwater schemas check orders-value order.avsc
    """
    with asked(registry, ca) as client:
        said = client.complaints(subject, read(file, kind, reference))
        level = client.level(subject)
    for each in said:
        print(each)
    if not said:
        print(f"{subject} would take it ({level})")
    return 1 if said else 0


@schemas.command("diff")
def diff(
    subject: str = subject_argument(),
    one: int | None = typer.Argument(
        None, metavar="[VERSION]", help="The older one; the one before the latest if left out."
    ),
    other: int | None = typer.Argument(None, metavar="[VERSION]", help="The latest if left out."),
    registry: str = registry_option(),
    ca: Path | None = ca_option(),
) -> None:
    """Print what differs between two versions.

    Example: headwater schemas diff orders-value 1 2
    """
    from headwater.browse.line_pairs import side_by_side, unified
    from headwater.browse.subjects import lines

    with asked(registry, ca) as client:
        if one is None:
            one = client.versions(subject)[-2:][0]
        old, new = client.version(subject, one), client.version(subject, other)
    found = list(unified(side_by_side(lines(old.schema), lines(new.schema))))
    if found:
        print(f"--- {subject} version {old.version}\n+++ {subject} version {new.version}")
        print("\n".join(found))


@schemas.command("compat")
def compat(
    level: str | None = typer.Argument(
        None, metavar="[LEVEL]", help="NONE, BACKWARD, FORWARD, FULL or one of them _TRANSITIVE."
    ),
    subject: str | None = typer.Option(
        None,
        "--subject",
        metavar="SUBJECT",
        help="Of this one; of all that have none of their own.",
    ),
    registry: str = registry_option(),
    ca: Path | None = ca_option(),
) -> None:
    """Print the level of compatibility in force, or set it.

    Example: headwater schemas compat FULL --subject orders-value
    """
    with asked(registry, ca) as client:
        if level is not None:
            client.set_level(level, subject)
        print(client.level(subject))


@schemas.command("import")
def import_(
    source: str = typer.Option(
        ..., "--from", metavar="HOST:PORT", help="The log whose topic of schemas is read."
    ),
    source_topic: str = typer.Option("_schemas", "--from-topic", metavar="TOPIC"),
    bootstrap: str = bootstrap_option(),
    topic: str = typer.Option("_schemas", "--topic", metavar="TOPIC", help="Where they go."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only count what would be imported."),
) -> None:
    """Bring all schemas of another registry, ids, versions, levels and modes kept.

    Reads the other registry's topic and writes what is missing here; it may run again. An id or a version
    that is another schema here stops it, with nothing overwritten; a level, a mode or a deletion that is
    otherwise here stays, and is told. Registries here may go on serving.

    Example: headwater schemas import --from kafka-1:9092 --bootstrap 127.0.0.1:9092
    """
    from headwater.schemas import migration
    from headwater.schemas.store import Store

    with (
        opened(source) as there,
        Store(there, source_topic, may_create=False) as theirs,
        opened(bootstrap) as here,
        Store(here, topic) as ours,
    ):
        if dry_run:
            print(f"{migration.count(theirs.state, ours.state):,} records would be imported")
            return
        count = 0
        while some := ours.change(lambda state: migration.missing(theirs.state, state)):
            count += some
        left = migration.differing(theirs.state, ours.state)
    print(f"{count:,} records imported")
    for each in left:
        say(f"left as it is: {each}")
