"""`headwater status`: the parts of the project in this folder, and how they and the broker are."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import json_option, opened
from headwater.cli.up import file_option
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.browse.health import BrokerHealth
    from headwater.project.file import Project
    from headwater.project.record import Entry

NOT_WELL = 1


def add_to(app: typer.Typer) -> None:
    app.command("status")(status)


def status(
    file: Path = file_option(),
    bootstrap: str | None = typer.Option(
        None,
        "--bootstrap",
        metavar="HOST:PORT",
        help="Show the broker at this address, and no project.",
    ),
    as_json: bool = json_option(),
) -> int:
    """Show each part (state, how long, restarts, why it ended last), and what troubles the broker.

    Exit code 1 unless all parts run, or are paused, and nothing troubles the broker: a task that
    fails, a disk that is full, a damaged partition.

    Example: headwater status --json
    """
    if bootstrap is not None:
        return _show_broker(bootstrap, as_json)
    from headwater.project import record
    from headwater.project.file import load

    project = load(file)
    is_up, entries = record.read(project.folder / record.FOLDER)
    health = _of_a_running(project.address) if is_up else None
    good = is_up and all(entry.state in ("running", "paused") for entry in entries)
    still = _paused(project)
    good = good and not (health and health.troubles)
    if as_json:
        parts = [asdict(entry) for entry in entries]
        told = {"up": is_up, "address": project.address, "parts": parts, "paused": still}
        print(json.dumps({**told, "broker": _as_json(health)}, indent=2))
    elif not is_up:
        print("not up; start it with: headwater up")
    else:
        print(f"the log is at {project.address}")
        _show_parts(entries, still)
        _show_health(health)
    return 0 if good else NOT_WELL


def _paused(project: Project) -> dict[str, str]:
    """What is paused, and by whom: parts, bridges, webhooks."""
    from headwater.project import control

    found = control.read(control.folder_of(project)).paused
    return {name: wish.by for name, wish in sorted(found.items())}


def _show_broker(bootstrap: str, as_json: bool) -> int:
    health = _health(bootstrap)
    if as_json:
        print(json.dumps({"address": bootstrap, "broker": _as_json(health)}, indent=2))
    elif health is None:
        print(f"the broker at {bootstrap} tells nothing of itself (yet)")
    else:
        started = health.subjects.get("broker", {}).get("started_ms", 0) / 1000
        print(f"the broker at {bootstrap} runs for {_for(started)}")
        _show_health(health)
        if not health.troubles:
            print("nothing troubles it")
    return NOT_WELL if health is not None and health.troubles else 0


def _health(bootstrap: str) -> BrokerHealth | None:
    from headwater.browse.health import HealthReader

    with opened(bootstrap) as log:
        return HealthReader(log).look()


def _of_a_running(address: str) -> BrokerHealth | None:
    """Of the project's broker; the parts say it, if it does not answer."""
    try:
        return _health(address)
    except HeadwaterError:
        return None


def _as_json(health: BrokerHealth | None) -> dict[str, Any] | None:
    if health is None:
        return None
    return {"troubles": health.troubles, "notes": health.notes, "subjects": dict(health.subjects)}


def _show_parts(entries: list[Entry], paused: Mapping[str, str]) -> None:
    width = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        line = f"{entry.name.ljust(width)}  {entry.state:<8} for {_for(entry.since):<8}"
        if entry.page:
            line += f" {entry.page}"
        if entry.asked_by:
            line += f" by {entry.asked_by}"
        if entry.restarts:
            line += f" started again {entry.restarts} times; last: {entry.reason}"
        print(line.rstrip())
    for name in paused.keys() - {entry.name for entry in entries}:
        print(f"{name}  paused by {paused[name]}")


def _show_health(health: BrokerHealth | None) -> None:
    for trouble in health.troubles if health else ():
        print(f"trouble: {trouble}")
    for note in health.notes if health else ():
        print(f"note: {note}")


def _for(since: float) -> str:
    seconds = max(0, int(time.time() - since))
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
