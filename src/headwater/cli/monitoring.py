"""`headwater monitoring`: files for Prometheus and Grafana, as they lie in the package."""

from __future__ import annotations

from pathlib import Path

import typer


def add_to(app: typer.Typer) -> None:
    app.command("monitoring")(monitoring)


def monitoring(
    folder: Path = typer.Argument(Path("monitoring"), metavar="[DIR]", help="Where to write them."),
    force: bool = typer.Option(False, "--force", help="Replace files that are there."),
) -> None:
    """Write files for Prometheus and Grafana: a configuration, alert rules, a dashboard.

    They read what `headwater edges` tells at /metrics and, by the names of kafka_exporter and KMinion,
    at /metrics/kafka.

    Example: headwater monitoring ops
    """
    from headwater.edges.monitoring import FILES, contents
    from headwater.errors import HeadwaterError

    there = [name for name in FILES if (folder / name).exists()]
    if there and not force:
        raise HeadwaterError(
            f"{folder / there[0]} is there already",
            hint="--force replaces it, or name another folder",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            (folder / name).write_text(contents(name), encoding="utf-8")
    except OSError as error:
        raise HeadwaterError(
            f"{folder} cannot be written to: {error.strerror}", hint="name another folder"
        ) from error
    for name in FILES:
        print(folder / name)
