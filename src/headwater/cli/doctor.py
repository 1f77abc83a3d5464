"""`headwater doctor`: whether the project in this folder has what it needs.

What a check has found, for people and as JSON: `headwater doctor` and `headwater capture check`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import typer

from headwater.cli.admin import json_option
from headwater.cli.up import file_option

if TYPE_CHECKING:
    from headwater.project.file import Project


def add_to(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(
    file: Path = file_option(),
    as_json: bool = json_option(),
    production: bool = typer.Option(
        False, "--production", help="Check the hardening list of docs/security.md instead."
    ),
) -> int:
    """Check the file, Java, ports, disk, pipelines, databases and edges; say how to fix each failure.

    With --production, whether the project is fit to face a network. Exits with 1 where a check fails.

    Example: headwater doctor --production
    """
    from headwater.project.file import load

    project = load(file)
    found = []
    for finding in _hardening(project) if production else _needs(project):
        found.append(finding)
        if not as_json:
            print_finding(finding)
    if as_json:
        print(json.dumps([finding_as_json(finding) for finding in found], indent=2))
    return 0 if all(finding.ok for finding in found) else 1


def _needs(project: Project) -> Iterable[Finding]:
    from headwater.project.doctor import examine

    found = [examine(project)]
    if project.edges is not None:
        from headwater.edges import doctor as edges

        found.append(edges.examine(project))
    if project.schemas is not None:
        from headwater.edges.doctor import examine_registry

        found.append(examine_registry(project))
    return chain(*found)


def _hardening(project: Project) -> Iterable[Finding]:
    from headwater.project.hardening import examine

    return examine(project)


class Finding(Protocol):
    """What one check came to."""

    @property
    def name(self) -> str: ...
    @property
    def ok(self) -> bool: ...
    @property
    def sentence(self) -> str: ...
    @property
    def remedy(self) -> str | None: ...


def print_finding(finding: Finding) -> None:
    """One line; and what to do, where something must be done."""
    print(f"{'ok    ' if finding.ok else 'FAILED'} {finding.name}: {finding.sentence}")
    if finding.remedy and not finding.ok:
        print(f"       fix: {finding.remedy}")


def finding_as_json(finding: Finding) -> dict[str, object]:
    """`mend` is the old name of `remedy`, and goes with the next release."""
    return {
        "name": finding.name,
        "ok": finding.ok,
        "sentence": finding.sentence,
        "remedy": finding.remedy,
        "mend": finding.remedy,
    }
