"""`headwater acls`: who may do what, on a running log. The same as `kafka-acls.sh`, in fewer words.

headwater acls allow User:ann read topic:orders group:billing- --prefixed
headwater acls deny 'User:*' delete 'topic:*'
headwater acls list
headwater acls remove --principal User:ann
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import (
    admin,
    bootstrap_option,
    json_option,
    print_json,
    print_table,
)

if TYPE_CHECKING:
    from headwater.client.acls import Acl

OPERATIONS = (
    *("all", "read", "write", "create", "delete", "alter", "describe", "cluster_action"),
    *("describe_configs", "alter_configs", "idempotent_write"),
)
KINDS = ("topic", "group", "cluster", "transaction")
CLUSTER_NAME = "kafka-cluster"

acls = typer.Typer(no_args_is_help=True, help="List, add and remove permissions (ACLs).")


def add_to(app: typer.Typer) -> None:
    app.add_typer(acls, name="acls")


def _principal_argument() -> Any:
    return typer.Argument(metavar="PRINCIPAL", help="Who: User:NAME, or User:* for everybody.")


def _operation_argument() -> Any:
    return typer.Argument(metavar="OPERATION", help=f"What: {', '.join(OPERATIONS)}.")


def _resources_argument() -> Any:
    return typer.Argument(
        metavar="RESOURCE...",
        help="With what: topic:NAME, group:NAME, transaction:NAME (NAME may be *), or cluster.",
    )


def _prefixed_option() -> Any:
    return typer.Option(False, "--prefixed", help="The names are beginnings of names.")


def _host_option() -> Any:
    return typer.Option("*", "--host", metavar="ADDRESS", help="From this address only.")


@acls.command("allow")
def allow(
    principal: str = _principal_argument(),
    operation: str = _operation_argument(),
    resources: list[str] = _resources_argument(),
    prefixed: bool = _prefixed_option(),
    host: str = _host_option(),
    bootstrap: str = bootstrap_option(),
) -> None:
    """Let somebody do something.

    Example: headwater acls allow User:ann read topic:orders group:billing
    """
    _add("allow", principal, operation, resources, prefixed, host, bootstrap)


@acls.command("deny")
def deny(
    principal: str = _principal_argument(),
    operation: str = _operation_argument(),
    resources: list[str] = _resources_argument(),
    prefixed: bool = _prefixed_option(),
    host: str = _host_option(),
    bootstrap: str = bootstrap_option(),
) -> None:
    """Forbid somebody something; it wins over what is allowed.

    Example: headwater acls deny User:bob write topic:orders
    """
    _add("deny", principal, operation, resources, prefixed, host, bootstrap)


@acls.command("list")
def list_acls(
    principal: str | None = typer.Option(
        None, "--principal", metavar="PRINCIPAL", help="Of this one only."
    ),
    bootstrap: str = bootstrap_option(),
    as_json: bool = json_option(),
) -> None:
    """Show who may do what.

    Example: headwater acls list --json
    """
    from headwater.client import acls as rules

    with admin(bootstrap) as client:
        found = rules.listed(client, principal)
    rows = sorted((_row(each) for each in found), key=lambda row: tuple(row.values()))
    if as_json:
        print_json(rows)
    elif rows:
        print_table([name.upper() for name in rows[0]], [list(row.values()) for row in rows])
    else:
        # librdkafka does not pass on that ACLs are switched off.
        print("No ACLs (they count where the broker has an authorizer.class.name)")


@acls.command("remove")
def remove(
    principal: str = typer.Option(
        ..., "--principal", metavar="PRINCIPAL", help="Whose permissions and denials to remove."
    ),
    resource: str | None = typer.Option(
        None, "--resource", metavar="RESOURCE", help="Of this resource only, as in `allow`."
    ),
    bootstrap: str = bootstrap_option(),
) -> None:
    """Take back what was allowed to, or forbidden, somebody.

    Example: headwater acls remove --principal User:ann --resource topic:orders
    """
    from headwater.client import acls as rules

    wanted = None if resource is None else _resource(resource)
    with admin(bootstrap) as client:
        gone = rules.remove(client, principal, wanted)
    print(f"Removed {gone} ACL{'s' if gone != 1 else ''} of {principal}")


def _add(
    permission: str,
    principal: str,
    operation: str,
    resources: list[str],
    prefixed: bool,
    host: str,
    bootstrap: str,
) -> None:
    if ":" not in principal:
        raise typer.BadParameter(f"{principal!r} is not User:NAME", param_hint="'PRINCIPAL'")
    if operation not in OPERATIONS:
        raise typer.BadParameter(
            f"{operation!r} is not one of {', '.join(OPERATIONS)}", param_hint="'OPERATION'"
        )
    places = [_resource(each) for each in resources]
    from headwater.client import acls as rules

    made = [
        rules.Acl(
            principal, permission, operation, kind, name, prefixed and kind != "cluster", host
        )
        for kind, name in places
    ]
    with admin(bootstrap) as client:
        rules.add(client, made)
    verb = "may" if permission == "allow" else "may not"
    print(f"{principal} {verb} {operation} {', '.join(resources)}")


def _resource(text: str) -> tuple[str, str]:
    word, colon, name = text.partition(":")
    if word == "cluster" and not colon:
        return word, CLUSTER_NAME
    if word not in KINDS or not name:
        raise typer.BadParameter(
            f"{text!r} is not topic:NAME, group:NAME, transaction:NAME or cluster",
            param_hint="'RESOURCE'",
        )
    return word, name


def _row(acl: Acl) -> dict[str, str]:
    return {
        "principal": acl.principal,
        "permission": acl.permission,
        "operation": acl.operation,
        "resource": acl.kind if acl.kind == "cluster" else f"{acl.kind}:{acl.name}",
        "names": "prefixed" if acl.is_prefix else "literal",
        "host": acl.host,
    }
