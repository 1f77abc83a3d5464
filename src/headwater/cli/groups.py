"""`headwater groups`: consumer groups, their members and lag; put them elsewhere, or delete them."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import bootstrap_option, json_option, opened, print_json, print_table
from headwater.cli.completion import group_names, topic_names
from headwater.cli.record_words import PLACES

if TYPE_CHECKING:
    from headwater.client.groups import Group, ResetPlan

groups = typer.Typer(no_args_is_help=True, help="List, show, reset, delete consumer groups.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(groups, name="groups")


def group_argument() -> Any:
    return typer.Argument(
        ..., metavar="GROUP", help="Name of the group.", autocompletion=group_names
    )


@groups.command("list")
def list_(bootstrap: str = bootstrap_option(), as_json: bool = json_option()) -> None:
    """List consumer groups: state, members, lag.

    Example: headwater groups list --json
    """
    from headwater.client.groups import listed

    with opened(bootstrap) as log:
        found = listed(log)
    rows = [
        {
            "group": each.name,
            "state": each.state.lower(),
            "members": len(each.members),
            "topics": len(each.topics),
            "lag": each.lag,
        }
        for each in found
    ]
    if as_json:
        print_json(rows)
    elif rows:
        heads = ["GROUP", "STATE", "MEMBERS", "TOPICS", "LAG"]
        print_table(heads, [list(row.values()) for row in rows])
    else:
        print("No consumer groups: nobody has committed an offset yet")


@groups.command("show")
def show(
    name: str = group_argument(),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """Show a group's members, and its lag in each partition.

    Example: headwater groups show headwater-order_search
    """
    from headwater.client.groups import named

    with opened(bootstrap) as log:
        found = named(log, name)
    if as_json:
        print_json(_as_json(found))
        return
    print(f"Group {name}, {found.state.lower()}, {len(found.members)} members, lag {found.lag:,}")
    for each in found.members:
        held = ", ".join(f"{topic}:{number}" for topic, number in each.partitions)
        print(f"  {each.client_id} at {each.host}: {held or 'no partition'}")
    print_table(
        ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER"],
        [
            [
                each.topic,
                each.partition,
                _number(each.committed),
                _number(each.end),
                _number(each.lag),
                each.member or "-",
            ]
            for each in found.partitions
        ],
    )


@groups.command("reset")
def reset(
    name: str = group_argument(),
    to: str | None = typer.Option(None, "--to", metavar="PLACE", help=f"Where to: {PLACES}."),
    shift: int | None = typer.Option(
        None, "--shift", metavar="COUNT", help="By so many offsets; back with -COUNT."
    ),
    topic: list[str] = typer.Option(
        [],
        "--topic",
        metavar="TOPIC",
        help="Only this topic; may be given again. None: all that the group has committed.",
        autocompletion=topic_names,
    ),
    partition: list[int] = typer.Option(
        [], "--partition", metavar="NUMBER", min=0, help="Only this partition; may be given again."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Only show what would change."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """Put a group's committed offsets elsewhere; refused while it has members.

    Example: headwater groups reset billing --to 2026-11-15T15:00 --topic orders --dry-run
    """
    if (to is None) == (shift is None):
        raise typer.BadParameter("give one of --to and --shift")
    from headwater.client.groups import Reset, apply_reset, plan_reset
    from headwater.client.places import parse

    wanted = Reset(place=None if to is None else parse(to), shift=shift)
    with opened(bootstrap) as log:
        plan = plan_reset(log, name, wanted, topic, partition or None)
        if not dry_run:
            _confirm(plan, yes)
            apply_reset(log, plan)
    _show_plan(plan, dry_run, as_json)


@groups.command("delete")
def delete(
    names: list[str] = typer.Argument(
        ..., metavar="GROUP...", help="Names of the groups.", autocompletion=group_names
    ),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    bootstrap: str = bootstrap_option(),
) -> None:
    """Delete groups with their committed offsets; refused while they have members.

    Example: headwater groups delete billing --yes
    """
    from headwater.client import groups as browse

    with opened(bootstrap) as log:
        for name in names:
            browse.named(log, name)
        if not yes:
            _ask(f"Delete {', '.join(names)} with all committed offsets?", "to delete")
        for name in names:
            browse.delete(log, name)
            print(f"Deleted group {name}")


def _confirm(plan: ResetPlan, yes: bool) -> None:
    if not yes and plan.changes:
        _ask(f"Move {plan.group} in {len(plan.changes)} partitions?", "to reset, or --dry-run")


def _ask(question: str, what: str) -> None:
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"nobody is there to be asked; say --yes {what}")
    typer.confirm(question, abort=True)


def _show_plan(plan: ResetPlan, dry_run: bool, as_json: bool) -> None:
    if as_json:
        moves = [asdict(each) for each in plan.moves]
        print_json({"group": plan.group, "applied": not dry_run, "moves": moves})
        return
    print_table(
        ["TOPIC", "PARTITION", "BEFORE", "AFTER"],
        [[e.topic, e.partition, _number(e.before), _number(e.after)] for e in plan.moves],
    )
    count = len(plan.changes)
    partitions = f"{count} partition{'' if count == 1 else 's'} of {plan.group}"
    print(f"{partitions} would move" if dry_run else f"Moved {partitions}")


def _as_json(found: Group) -> dict[str, Any]:
    partitions = [{**asdict(each), "lag": each.lag} for each in found.partitions]
    return {
        "group": found.name,
        "state": found.state.lower(),
        "kind": found.kind,
        "lag": found.lag,
        "members": [asdict(each) for each in found.members],
        "partitions": partitions,
    }


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
