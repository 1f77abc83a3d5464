"""`headwater users`: who can log in. Through a running broker, or on the folder of a stopped one.

The folder way (`--data`) makes the first user: a broker that only lets users in cannot be asked to make
one. A password is asked for, or read from stdin; it is never a word of the command, where others on the
machine could see it, and never stored: what is stored is salted and iterated.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from headwater import owner_only
from headwater.cli.admin import (
    admin,
    bootstrap_option,
    json_option,
    print_json,
    print_table,
)
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.broker.security.credentials import Credentials

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS = 8192

users = typer.Typer(no_args_is_help=True, help="List, add and remove users who can log in.")


def add_to(app: typer.Typer) -> None:
    app.add_typer(users, name="users")


def _data_option() -> Any:
    return typer.Option(
        None,
        "--data",
        metavar="DIR",
        help="Folder of a stopped broker, instead of a running one's address.",
    )


def _mechanism_option() -> Any:
    return typer.Option(
        [],
        "--mechanism",
        metavar="NAME",
        help=f"{' or '.join(MECHANISMS)}; may be given again. Default: both.",
    )


@users.command("add")
def add(
    name: str = typer.Argument(metavar="NAME", help="The user's name."),
    mechanism: list[str] = _mechanism_option(),
    iterations: int = typer.Option(
        ITERATIONS,
        "--iterations",
        min=4096,
        max=16384,
        help="How slow it is to guess the password from what is stored.",
    ),
    data: Path | None = _data_option(),
    bootstrap: str = bootstrap_option(),
) -> None:
    """Add a user, or give one a new password.

    The password is asked for; in a script, give it on stdin.

    Example: headwater users add ann --data data/log
    """
    chosen = _chosen(mechanism)
    password = _password(name)
    if data is not None:
        _offline(data, lambda kept: _put(kept, chosen, name, password, iterations))
    else:
        from headwater.client import users as credentials

        with admin(bootstrap) as client:
            credentials.put(client, name, password, chosen, iterations)
    print(f"{name} can log in now")


@users.command("remove")
def remove(
    name: str = typer.Argument(metavar="NAME", help="The user's name."),
    mechanism: list[str] = _mechanism_option(),
    data: Path | None = _data_option(),
    bootstrap: str = bootstrap_option(),
) -> None:
    """Take a user's credentials away; connections that are logged in stay until they end.

    Example: headwater users remove ann
    """
    chosen = _chosen(mechanism)
    found = next((row for row in _all(data, bootstrap) if row["user"] == name), None)
    having = [each for each in chosen if found is not None and each in found["mechanisms"]]
    if not having:
        _missing(name)
    if data is not None:
        _offline(data, lambda kept: _take(kept, having, name))
    else:
        from headwater.client import users as credentials

        with admin(bootstrap) as client:
            credentials.remove(client, name, having)
    print(f"{name} can log in no more with {', '.join(having)}")


@users.command("list")
def list_users(
    data: Path | None = _data_option(),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """Show who can log in, and how.

    Example: headwater users list --json
    """
    rows = _all(data, bootstrap)
    if as_json:
        print_json(rows)
    elif rows:
        print_table(
            ["USER", "MECHANISMS"], [[row["user"], ", ".join(row["mechanisms"])] for row in rows]
        )
    else:
        print("No users: headwater users add NAME makes one")


# ---- the two ways --------------------------------------------------------------------------------


def _all(data: Path | None, bootstrap: str) -> list[dict[str, Any]]:
    if data is not None:
        found: dict[str, list[str]] = {}

        async def look(kept: Credentials) -> None:
            found.update({user: sorted(each) for user, each in kept.users().items()})

        _offline(data, look)
    else:
        from headwater.client import users as credentials

        with admin(bootstrap) as client:
            found = credentials.listed(client)
    return [{"user": user, "mechanisms": names} for user, names in sorted(found.items())]


def _offline(data: Path, work: Callable[[Credentials], Awaitable[None]]) -> None:
    if data.exists() and not data.is_dir():
        raise HeadwaterError(f"{data} is no folder", hint="give --data the broker's data folder")
    owner_only.make_folder(data)

    async def run() -> None:
        from headwater.broker.settings.offline import users_of

        async with users_of(data) as kept:
            await work(kept)

    asyncio.run(run())


async def _put(
    kept: Credentials, mechanisms: list[str], name: str, password: str, iterations: int
) -> None:
    import os

    from headwater.broker.security import scram

    for each in mechanisms:
        mechanism, salt = scram.MECHANISMS[each], os.urandom(24)
        salted = scram.salted(mechanism, password, salt, iterations)
        await kept.put(mechanism, name, scram.credential(mechanism, salted, salt, iterations))


async def _take(kept: Credentials, mechanisms: list[str], name: str) -> None:
    from headwater.broker.security import scram

    for each in mechanisms:
        await kept.remove(scram.MECHANISMS[each], name)


# ---- words ---------------------------------------------------------------------------------------


def _chosen(mechanisms: list[str]) -> list[str]:
    for each in mechanisms:
        if each not in MECHANISMS:
            raise typer.BadParameter(
                f"{each!r} is not one of {', '.join(MECHANISMS)}", param_hint="'--mechanism'"
            )
    return mechanisms or list(MECHANISMS)


def _password(name: str) -> str:
    if sys.stdin.isatty():
        password = str(
            typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True)
        )
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise HeadwaterError(
            "no password was given", hint="type it when asked, or give it as one line on stdin"
        )
    return password


def _missing(name: str) -> NoReturn:
    raise HeadwaterError(
        f"there is no user {name} with such a credential",
        hint="headwater users list shows those that exist",
    )
