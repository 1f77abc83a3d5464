"""`headwater status`: the parts of the project in this folder, and how they are."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import typer

from headwater.cli.admin import json_option
from headwater.cli.up import file_option

NOT_UP = 1


def add_to(app: typer.Typer) -> None:
    app.command("status")(status)


def status(file: Path = file_option(), as_json: bool = json_option()) -> int:
    """Show each part: state, how long, restarts, why it ended last. Exit code 1 unless all run.

    Example: headwater status --json
    """
    from headwater.project import record
    from headwater.project.file import load

    project = load(file)
    is_up, entries = record.read(project.folder / record.FOLDER)
    good = is_up and all(entry.state == "running" for entry in entries)
    if as_json:
        parts = [asdict(entry) for entry in entries]
        print(json.dumps({"up": is_up, "address": project.address, "parts": parts}, indent=2))
        return 0 if good else NOT_UP
    if not is_up:
        print("not up; start it with: headwater up")
        return NOT_UP
    print(f"the log is at {project.address}")
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        line = f"{entry.name.ljust(width)}  {entry.state:<8} for {_for(entry.since):<8}"
        if entry.page:
            line += f" {entry.page}"
        if entry.restarts:
            line += f" started again {entry.restarts} times; last: {entry.reason}"
        print(line.rstrip())
    return 0 if good else NOT_UP


def _for(since: float) -> str:
    seconds = max(0, int(time.time() - since))
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h"
