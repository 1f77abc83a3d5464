"""`headwater deadletters`: look at what share groups rejected or gave up, at what a Spark query could not
decode and at what a view refused, and send it back.

The letters and the account of what was done with them are `browse.dead_letters`; this only prints.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import typer

from headwater.browse.dead_letters.letter import Letter
from headwater.browse.dead_letters.replay import replay as send_back
from headwater.browse.dead_letters.survey import dead_letter_topics, open_letters
from headwater.cli.admin import (
    TIMEOUT_S,
    admin,
    bootstrap_option,
    json_option,
    print_json,
    print_table,
)
from headwater.cli.properties import client_config

SHOWN = 20

deadletters = typer.Typer(no_args_is_help=True, help="Show dead letters, and send them back.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(deadletters, name="deadletters")


@deadletters.command("list")
def list_(
    topic: str = typer.Argument("", metavar="[TOPIC]", help="A dead-letter topic; none: all."),
    everything: bool = typer.Option(False, "--all", help="Show those replayed already, too."),
    limit: int = typer.Option(SHOWN, "--limit", min=1, metavar="COUNT", help="Show so many."),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """List dead letters that wait, oldest first.

    Example: headwater deadletters list dlq.orders
    """
    if not topic:
        _list_topics(bootstrap, as_json)
        return
    with admin(bootstrap), open_letters(_settings(bootstrap), topic) as letters:
        found = letters.all() if everything else letters.waiting()
        rows = [_shown(letter) for letter in islice(found, limit)]
    if as_json:
        print_json(rows)
    elif rows:
        print_table([name.upper() for name in rows[0]], [list(row.values()) for row in rows])
    else:
        print(f"No dead letters wait in {topic}")


@deadletters.command("replay")
def replay(
    topic: str = typer.Argument(metavar="TOPIC", help="A dead-letter topic."),
    to: str = typer.Option("", "--to", metavar="TOPIC", help="Send there, not to the source."),
    limit: int = typer.Option(0, "--limit", min=0, metavar="COUNT", help="Send so many; 0: all."),
    bootstrap: str = bootstrap_option(),
) -> None:
    """Send dead letters back to the topic they came from.

    Each one once: the next replay goes on behind the last.

    Example: headwater deadletters replay dlq.orders
    """
    with admin(bootstrap):
        count = send_back(_settings(bootstrap), topic, to=to, limit=limit)
    print(f"Replayed {count} dead letter{'' if count == 1 else 's'} from {topic}")


def _list_topics(bootstrap: str, as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    with admin(bootstrap) as client:
        for name in dead_letter_topics(client.list_topics(timeout=TIMEOUT_S).topics):
            with open_letters(_settings(bootstrap), name) as letters:
                held, waiting = letters.counts()
            rows.append({"topic": name, "letters": held, "waiting": waiting})
    if as_json:
        print_json(rows)
    elif rows:
        print_table(["TOPIC", "LETTERS", "WAITING"], [list(row.values()) for row in rows])
    else:
        print("No dead-letter topics: nothing was rejected or given up")


def _settings(bootstrap: str) -> dict[str, str]:
    return {**client_config(), "bootstrap.servers": bootstrap}


def _shown(letter: Letter) -> dict[str, Any]:
    return {
        "offset": f"{letter.partition}:{letter.offset}",
        "source": f"{letter.source}-{letter.source_partition}:{letter.source_offset}",
        "group": letter.group,
        "deliveries": letter.deliveries,
        "reason": letter.reason,
        "key": _text(letter.key),
        "value": _text(letter.value),
    }


def _text(data: bytes | None) -> str:
    if data is None:
        return "-"
    text = data.decode("utf-8", "replace")
    return text if len(text) <= 40 else text[:39] + "…"
