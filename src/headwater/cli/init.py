"""`headwater init`: a new project to edit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer


def add_to(app: typer.Typer) -> None:
    app.command("init")(init)


def init(
    name: str = typer.Argument(..., metavar="NAME", help="Name of the project and of its folder."),
) -> None:
    """Write a small project: headwater.toml, pipelines/, a README that says what to edit.

    It runs as it is, with a small database to try it with: cd NAME, headwater up.

    Example: headwater init shop
    """
    from headwater.project.new_project import start_project

    for path in start_project(Path(), name):
        print(f"  {path}")
    # As the person would do it next; without a database the first `up` would only complain.
    subprocess.run([sys.executable, "shop.py", "--make"], cwd=name, check=True)
    print(f"  {name}/shop.db")
    print(f"\nNext: cd {name} && headwater up")
