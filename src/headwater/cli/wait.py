"""`headwater wait`: return once a view has what was written, or say that it has not."""

from __future__ import annotations

from pathlib import Path

import typer

from headwater.cli.admin import json_option, print_json
from headwater.cli.pipeline_words import paths_argument, to_option, understood

NOT_YET = 3


def add_to(app: typer.Typer) -> None:
    app.command("wait")(wait)


def wait(
    view: str = typer.Argument(..., metavar="VIEW", help="Name of the view."),
    paths: list[Path] = paths_argument(),
    to: list[str] = to_option(),
    position: str = typer.Option(
        ...,
        "--position",
        metavar="TOPIC:PARTITION=NEXT,…",
        help="What the view must have: everything before these offsets.",
    ),
    timeout: float = typer.Option(10.0, "--timeout", min=0, metavar="SECONDS", help="How long."),
    as_json: bool = json_option(),
) -> int:
    """Wait until readers of a view see everything before a position.

    A record at offset 16 of partition 0 of orders is there once the view has orders:0=17. The exit code
    is 0 if it has, and 3 if it has not within the time.

    Example: headwater wait order_search pipelines/ --position orders:0=17 --timeout 10
    """
    from headwater.client.position import Position
    from headwater.pipelines.handles import handle, the_view, views_of
    from headwater.views.operate.wait import NotYet

    wanted = Position.parse(position)
    given = understood(paths, to)
    found = handle(the_view(view, views_of(given.paths, given.targets)))
    try:
        reached = found.wait(wanted, timeout)
    except NotYet as error:
        _say(as_json, str(error), reached=False, position=str(error.reached or ""))
        return NOT_YET
    _say(as_json, f"{view} has it: it is at {reached}", reached=True, position=str(reached))
    return 0


def _say(as_json: bool, sentence: str, **facts: object) -> None:
    if as_json:
        print_json({**facts, "sentence": sentence})
    else:
        print(sentence)
