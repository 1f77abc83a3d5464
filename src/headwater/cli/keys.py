"""`headwater keys`: the keys of personal data, which `headwater forget` destroys.

Puts together `events.keys` and `cli.excise`, which takes records out of the log's files.
"""

from __future__ import annotations

import typer

from headwater.cli import excise
from headwater.cli.admin import admin, bootstrap_option, json_option, print_json
from headwater.cli.events import check_installed
from headwater.cli.properties import client_config

keys = typer.Typer(no_args_is_help=True, help="The keys of personal data.")


@keys.callback()
def group() -> None:
    """The keys of personal data."""


def add_to(app: typer.Typer) -> None:
    app.add_typer(keys, name="keys")


@keys.command("move")
def move(
    topic: str = typer.Option(
        "__headwater_keys", "--keys", metavar="TOPIC", help="The topic of the keys."
    ),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> int:
    """Wrap keys that lie open in the log, from before keys were wrapped.

    They come under the master key (HEADWATER_MASTER_KEY, or ~/.config/headwater/master.key), into
    the topic __headwater_keys, and out of the log's files where they lay open (headwater's broker;
    on Apache Kafka compaction does it later). First replace all programs that use the keys: older
    ones cannot read them any more. Twice does no harm.

    Example: headwater keys move
    """
    check_installed()
    from headwater.events.key_topic import FORMER_TOPIC
    from headwater.events.keys import Keys

    with Keys(bootstrap, client=client_config(), topic=topic) as store:
        places = store.move()
    removed = 0
    with admin(bootstrap) as client:
        can = excise.can_excise(client, topic)
        for place in places if can else ():
            removed += excise.excise_record(client, bootstrap, *place, "wrapped by the master key")
    if as_json:
        print_json({"moved": len(places), "excised": removed if can else None})
        return 0
    print(f"{len(places):,} keys are wrapped now.")
    if places and not can:
        print(f"They stay in the files of {FORMER_TOPIC} until compaction (this is not headwater).")
    return 0
