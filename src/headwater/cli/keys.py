"""`headwater keys`: the keys of personal data, which `headwater forget` destroys.

Puts together `events.keys` and `cli.excision`, which takes records out of the log's files.
"""

from __future__ import annotations

import typer

from headwater.cli import excision
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
    with admin(bootstrap) as client:
        can, why = excision.can_excise(client, topic), "wrapped by the master key"
        taken = [excision.excise_record(client, bootstrap, *place, why) for place in places if can]
    beside = list(dict.fromkeys(name for _, names in taken for name in names))
    if as_json:
        said = {"moved": len(places), "excised": sum(n for n, _ in taken) if can else None}
        print_json({**said, "copies": beside} if beside else said)
        return 0
    print(f"{len(places):,} keys are wrapped now.")
    if beside:
        print(excision.beside_the_log(beside, len(beside)))
    if places and not can:
        print(f"They stay in the files of {FORMER_TOPIC} until compaction (this is not headwater).")
    return 0
