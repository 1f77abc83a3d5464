"""`headwater settings`: every setting of the broker and of a topic, with default and meaning.

Reads the broker's own tables, so that nothing can be missing here; docs/settings.md is written
from the same tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import get_terminal_size
from textwrap import fill
from typing import Any

import typer

from headwater.cli.admin import json_option, print_json
from headwater.errors import HeadwaterError

_INDENT: Any = {"initial_indent": " " * 6, "subsequent_indent": " " * 6}


class NoSuchSetting(HeadwaterError):
    """Nothing matches what was asked for."""


def add_to(app: typer.Typer) -> None:
    app.command("settings")(settings)


def settings(
    part: str = typer.Argument(
        "", metavar="PART", show_default=False, help="Show only names with this in them."
    ),
    data: Path | None = typer.Option(
        None,
        "--data",
        metavar="DIR",
        help="The folder of a stopped broker: those that were changed while it ran.",
    ),
    unset: list[str] = typer.Option(
        [], "--unset", metavar="NAME", help="With --data: take this change back."
    ),
    as_json: bool = json_option(),
) -> None:
    """List every broker and topic setting.

    The broker's are given with `headwater broker --set NAME=VALUE`, a topic's with
    `headwater topics create --set NAME=VALUE`; a dynamic one can be changed while the broker runs, and
    that change then wins over --set. One that lets nobody in any more is taken back on the stopped
    broker's folder.

    Example: headwater settings retention

    Example: headwater settings --data ./data --unset max.connections
    """
    if data is not None or unset:
        _offline(data, unset, part, as_json)
        return
    found = [entry for entry in all_settings() if part.lower() in entry["name"]]
    if not found:
        raise NoSuchSetting(
            f"no setting has {part!r} in its name", hint="headwater settings lists them all"
        )
    if as_json:
        print_json(found)
        return
    width = min(get_terminal_size().columns, 100)
    for scope, title in (("broker", "Settings of the broker"), ("topic", "Settings of a topic")):
        entries = [entry for entry in found if entry["scope"] == scope]
        if entries:
            print(f"{title}\n")
        for entry in entries:
            print(f"  {entry['name']} = {shown_default(entry)}")
            print(fill(f"{entry['doc']} {remark(entry)}", width, **_INDENT))
        if entries:
            print()


def _offline(data: Path | None, unset: list[str], part: str, as_json: bool) -> None:
    import asyncio

    from headwater.broker.settings.offline import changed_settings, is_folder

    if data is None:
        raise typer.BadParameter("give the folder with --data", param_hint="'--unset'")
    if not is_folder(data):
        raise NoSuchSetting(f"{data} is no broker's folder", hint="give the one of its --data")
    found, missing = asyncio.run(changed_settings(data, unset))
    if missing:
        raise NoSuchSetting(
            f"{missing[0]} was not changed while the broker ran",
            hint=f"headwater settings --data {data} lists those that were",
        )
    rows = [each for each in found if part.lower() in each["name"]]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        print(f"{row['name']} = {row['value']}" + (f" (node {row['node']})" if row["node"] else ""))


def all_settings() -> Iterator[dict[str, Any]]:
    """The broker's settings, then a topic's, in the order of their tables: kin stand together."""
    from headwater.broker.settings.definitions import render
    from headwater.broker.settings.topic import TOPIC
    from headwater.broker.settings.values import BROKER

    for scope, table in (("broker", BROKER), ("topic", TOPIC)):
        for name, definition in table.items():
            yield {
                "scope": scope,
                "name": name,
                "type": definition.kind.name.lower(),
                "default": render(definition.default),
                "accepts": definition.check.accepts if definition.check else None,
                "dynamic": definition.dynamic,
                "effect": definition.effect,
                "default_from": [synonym for synonym, _ in definition.synonyms],
                "doc": definition.doc,
            }


def shown_default(entry: dict[str, Any]) -> str:
    if entry["default"] is None:
        return "(not set)"
    return str(entry["default"]) or "(empty)"


def remark(entry: dict[str, Any]) -> str:
    """What a reader of one line should also know, in brackets, or nothing."""
    remarks = []
    if entry["default_from"]:
        remarks.append(f"default: the broker's {entry['default_from'][0]}")
    elif entry["scope"] == "broker" and entry["dynamic"]:
        remarks.append("dynamic")
    if not entry["effect"]:
        remarks.append("accepted, without effect on one node")
    return f"({'; '.join(remarks)})" if remarks else ""
