"""`headwater init`: a new project to edit."""

from __future__ import annotations

from pathlib import Path

import typer


def add_to(app: typer.Typer) -> None:
    app.command("init")(init)


def init(
    name: str = typer.Argument(..., metavar="NAME", help="Name of the project and of its folder."),
) -> None:
    """Write a small project: headwater.toml, pipelines/, a README that says what to edit.

    It runs as it is: cd NAME, python shop.py --make, headwater up.

    Example: headwater init shop
    """
    from headwater.project.starting import start_project

    for path in start_project(Path(), name):
        print(f"  {path}")
    print(f"\nNext: cd {name} && python shop.py --make && headwater up")
