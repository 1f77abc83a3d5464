"""`headwater doctor`: whether the project in this folder has what it needs."""

from __future__ import annotations

import json
from dataclasses import asdict
from itertools import chain
from pathlib import Path

import typer

from headwater.cli.admin import json_option
from headwater.cli.up import file_option


def add_to(app: typer.Typer) -> None:
    app.command("doctor")(doctor)


def doctor(file: Path = file_option(), as_json: bool = json_option()) -> int:
    """Check the file, Java, ports, disk, pipelines, databases and edges; say what mends each failure.

    Example: headwater doctor
    """
    from collections.abc import Iterable

    from headwater.project.doctor import Finding, examine
    from headwater.project.file import load

    project = load(file)
    findings: Iterable[Finding] = examine(project)
    if project.edges is not None:
        from headwater.edges import examining

        findings = chain(findings, examining.examine(project))
    found = []
    for finding in findings:
        found.append(finding)
        if not as_json:
            print(f"{'ok    ' if finding.ok else 'FAILED'} {finding.name}: {finding.sentence}")
            if finding.mend and not finding.ok:
                print(f"       mend it with: {finding.mend}")
    if as_json:
        print(json.dumps([asdict(finding) for finding in found], indent=2))
    return 0 if all(finding.ok for finding in found) else 1
