"""`headwater broker`: run the log in this process until SIGTERM or Ctrl-C.

typer's side of the command: its help, and the sentence for words that `quick.understand` did not
take. What the words start is in `quick.start`.
"""

from __future__ import annotations

import typer

from headwater.cli.quick import (
    DATA,
    DURABILITIES,
    DURABILITY,
    LISTEN,
    LOG_LEVELS,
    BrokerWords,
    complaint,
    start,
)


def add_to(app: typer.Typer) -> None:
    app.command("broker")(broker)


def broker(
    data: str | None = typer.Option(
        None,
        "--data",
        metavar="DIR",
        help=f"Folder of the log, made where missing. Default: log.dirs, else {DATA}.",
    ),
    listen: str | None = typer.Option(
        None,
        "--listen",
        metavar="HOST:PORT",
        help="Address of a plain listener, port 0 for a free one. "
        f"Default: listeners, else {LISTEN}.",
    ),
    advertise: str | None = typer.Option(
        None,
        "--advertise",
        metavar="HOST:PORT",
        help="Address that clients are told to use, where it differs from --listen.",
    ),
    durability: str | None = typer.Option(
        None,
        "--durability",
        metavar="|".join(DURABILITIES),
        help="What acks=all waits for: the disk, or (Kafka's habit) the operating system. "
        f"Default: {DURABILITY}.",
    ),
    assignments: list[str] = typer.Option(
        [],
        "--set",
        metavar="NAME=VALUE",
        help="A setting by Kafka's name; may be given again and again. "
        "`headwater settings` lists them.",
    ),
    config: str | None = typer.Option(
        None,
        "--config",
        metavar="FILE",
        help="Settings from a file of name=value lines; --set wins over it.",
    ),
    insecure: bool = typer.Option(
        False,
        "--insecure",
        help="Allow an address other than loopback where clients need not say who they are.",
    ),
    log_level: str = typer.Option(
        "info",
        "--log-level",
        metavar="LEVEL",
        help=f"How much to say on stderr: {', '.join(LOG_LEVELS)}.",
    ),
) -> int:
    """Run the broker until SIGTERM or Ctrl-C.

    Any Kafka client can then use it: give it the address as bootstrap server. What was
    acknowledged is on disk; kill it in any way and start it again on the same folder.

    Example: headwater broker --data data/log --set num.partitions=4
    """
    meant = BrokerWords(
        data=data,
        listen=listen,
        advertise=advertise,
        durability=durability,
        assignments=tuple(assignments),
        config=config,
        log_level=log_level,
        insecure=insecure,
    )
    if (wrong := complaint(meant)) is not None:
        option, sentence = wrong
        raise typer.BadParameter(sentence, param_hint=f"'{option}'")
    return start(meant)
