"""`headwater events`: read what happened to one aggregate, and how it was at any moment."""

from __future__ import annotations

import importlib
import json
import os
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import admin, bootstrap_option, json_option, print_json
from headwater.cli.properties import client_config, client_settings
from headwater.client.errors import RequestRefused

if TYPE_CHECKING:
    from headwater.events.aggregate import Aggregate

events = typer.Typer(no_args_is_help=True, help="Read the histories of event-sourced aggregates.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(events, name="events")


def check_installed() -> None:
    """The extra that these commands need; `forget` asks too."""
    missing = [name for name in ("msgspec", "cryptography") if find_spec(name) is None]
    if missing:
        raise RequestRefused(
            f"the package {missing[0]} is not installed", hint="pip install 'headwater[events]'"
        )


@events.command("history")
def history(
    topic: str = typer.Argument(..., metavar="TOPIC", help="The topic of the events."),
    id: str = typer.Argument(..., metavar="ID", help="The aggregate."),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """List what happened to one aggregate: who, what, when, why.

    Example: headwater events history accounts alice
    """
    check_installed()
    with admin(bootstrap):
        pass  # says at once that no broker answers
    from headwater.client.cluster import Cluster
    from headwater.events import plain

    cluster = Cluster(client_settings(bootstrap))
    try:
        found = list(plain.history(cluster, topic, id))
    finally:
        cluster.close()
    if as_json:
        print_json(found)
        return
    if not found:
        raise RequestRefused(f"{topic} has no event of {id!r}", hint="ids are exact, case included")
    for each in found:
        print(_line(each))


@events.command("state")
def state(
    aggregate: str = typer.Argument(
        ..., metavar="MODULE:NAME", help="Where the Aggregate is, as in examples.accounts:accounts."
    ),
    id: str = typer.Argument(..., metavar="ID", help="The aggregate."),
    as_of: str | None = typer.Option(
        None, "--as-of", metavar="TIME", help="As 2026-11-15T15:00 (UTC); without it, now."
    ),
    bootstrap: str = bootstrap_option(),
) -> None:
    """Print the state of one aggregate, now or at an earlier moment, as JSON.

    Example: headwater events state bank:accounts alice --as-of 2026-11-15T15:00
    """
    check_installed()
    moment = _moment(as_of)
    with admin(bootstrap):
        pass
    from headwater.events.history import Reader

    with Reader(_found(aggregate), bootstrap, client_config()) as reader:
        found = reader.state(id) if moment is None else reader.as_of(id, moment)
    import msgspec

    from headwater.events import models

    plain = msgspec.to_builtins(found, enc_hook=models.encode)
    print(json.dumps(plain, ensure_ascii=False))


def _line(each: dict[str, Any]) -> str:
    at = datetime.fromisoformat(each["at"])
    fields = ", ".join(f"{name}={_short(value)}" for name, value in each["data"].items())
    said = f"{at:%Y-%m-%d %H:%M:%S}  {each['n']:>5}  {each['type']}({fields})"
    said += f"  by {each['who']}" if each.get("who") else ""
    return said + (f"  because {each['why']}" if each.get("why") else "")


def _short(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"subject", "sealed"}:
        return f"(sealed for {value['subject']})"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time, as 2026-11-15T15:00", param_hint="'--as-of'"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _found(text: str) -> Aggregate[Any]:
    from headwater.events import Aggregate

    module, _, name = text.partition(":")
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 (where a person's own modules are)
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise typer.BadParameter(f"{text}: {error}", param_hint="'MODULE:NAME'") from None
    if not isinstance(found, Aggregate):
        raise typer.BadParameter(f"{text} is no Aggregate", param_hint="'MODULE:NAME'")
    return found
