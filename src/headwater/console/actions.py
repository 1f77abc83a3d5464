"""Everything that somebody can do through the console, and who may: the one table.

A page makes the button of an action with `elements.action(visit, Action.X, …)`: whoever may not do it does
not see it, and is refused when it is pressed all the same. What a page does without such a button begins
with `visit.must(Action.X)`. An action that is not here cannot be offered.
"""

from __future__ import annotations

from enum import Enum

from headwater.errors import HeadwaterError
from headwater.project.roles import Role


class NotAllowed(HeadwaterError):
    """Somebody tried to do what is not for them."""


class Action(Enum):
    """What it is, and the least role that may do it."""

    PUBLISH = "publish a record", Role.OPERATOR
    REPLAY = "replay records", Role.OPERATOR
    SEND_BACK = "send dead letters back", Role.OPERATOR
    DISMISS = "dismiss a dead letter", Role.OPERATOR
    RESET_GROUP = "reset a group", Role.OPERATOR
    VERIFY = "verify a view", Role.OPERATOR
    REPAIR = "repair a view", Role.OPERATOR
    REBUILD = "rebuild a view", Role.OPERATOR
    GO_BACK = "go back to a view's version before", Role.OPERATOR
    DROP_VERSIONS = "drop old versions of a view", Role.ADMINISTRATOR
    STOP_JOB = "stop what was started", Role.OPERATOR
    CONTROL_PART = "pause, resume or restart a part", Role.OPERATOR
    CREATE_TOPIC = "create a topic", Role.ADMINISTRATOR
    CONFIGURE_TOPIC = "change a topic's settings", Role.ADMINISTRATOR
    ADD_PARTITIONS = "add partitions to a topic", Role.ADMINISTRATOR
    DELETE_TOPIC = "delete a topic", Role.ADMINISTRATOR
    CHANGE_USERS = "add, change or remove a user", Role.ADMINISTRATOR
    CHANGE_PERMISSIONS = "add or remove a permission", Role.ADMINISTRATOR
    CHANGE_QUOTAS = "set or remove a quota", Role.ADMINISTRATOR
    DELETE_OFFSETS = "delete a group's offsets", Role.ADMINISTRATOR
    DELETE_GROUP = "delete a group", Role.ADMINISTRATOR
    WRITE_DEMO_ORDER = "write an order to the demo's shop", Role.OPERATOR
    KILL_DEMO_BROKER = "kill the demo's broker", Role.ADMINISTRATOR
    CONFIGURE_BROKER = "change a broker's settings", Role.ADMINISTRATOR

    def __init__(self, sentence: str, role: Role) -> None:
        self.sentence = sentence
        self.role = role


def check(action: Action, role: Role, *, read_only: bool) -> None:
    """Raises NotAllowed."""
    if read_only:
        raise NotAllowed(
            "this console is read-only", hint="start one without --read-only to change things"
        )
    if role < action.role:
        raise NotAllowed(
            f"to {action.sentence} takes the role of {action.role.word}, and yours is {role.word}",
            hint="ask whoever runs the console for it, or sign in as somebody else",
        )


def allows(action: Action, role: Role, *, read_only: bool) -> bool:
    return not read_only and role >= action.role
