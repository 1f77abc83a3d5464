"""Add a user, or give another password; allow or forbid; limit: three forms of the page on access."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from nicegui import ui

from headwater.client import acls, quotas
from headwater.client.acls import Acl
from headwater.client.errors import BadRequest
from headwater.client.quotas import LIMITS, Quota
from headwater.console.actions import Action
from headwater.console.administration import access as administration
from headwater.console.administration.access import MECHANISMS, checked
from headwater.console.administration.topics import must_match
from headwater.console.context import Visit
from headwater.console.forms.trial import Plan, Row, Trial, form
from headwater.console.live import loaded
from headwater.console.sentences import number

EVERYBODY_ELSE = "*"
"""As a name in the form of quotas: all that have none of their own."""


class UserForm:
    """A new user; or, opened with a name, another password."""

    def __init__(self, visit: Visit, after: Callable[[], object]) -> None:
        self._visit = visit
        self._known: Mapping[str, Sequence[str]] = {}
        with form(
            "User", "Whoever is logged in stays so; the next login needs what is typed here."
        ) as self._dialog:
            self._name = ui.input("Name").props("outlined dense autocomplete=off")
            self._password = ui.input("Password", password=True, password_toggle_button=True)
            self._password.props("outlined dense autocomplete=new-password")
            self._mechanisms = ui.select(
                list(MECHANISMS), label="Mechanisms", value=[MECHANISMS[0]], multiple=True
            ).props("outlined dense use-chips")
            for each in (self._name, self._password, self._mechanisms):
                each.classes("full-width")
            trial = Trial(
                visit, Action.CHANGE_USERS, self._dialog, self._plan, apply="Set", after=after
            )
            for field in (self._name, self._password):
                field.on_value_change(trial.forget)
            self._mechanisms.on_value_change(trial.forget)

    def open(self, known: Mapping[str, Sequence[str]], name: str = "") -> None:
        self._known = known
        self._name.set_value(name)
        self._name.set_enabled(not name)
        self._password.set_value("")
        self._mechanisms.set_value(list(known.get(name) or [MECHANISMS[0]]))
        self._dialog.open()

    async def _plan(self) -> Plan:
        name, password = (self._name.value or "").strip(), self._password.value or ""
        chosen = list(self._mechanisms.value or ())
        if not name or not password or not chosen:
            raise BadRequest("a user needs a name, a password and a mechanism")
        before = ", ".join(self._known.get(name, ())) or "–"
        also = sorted({*self._known.get(name, ()), *chosen})
        is_new = name not in self._known
        return Plan(
            f"{name} would be a new user:" if is_new else f"{name} would have another password:",
            [Row("can log in by", before, ", ".join(also))],
            partial(administration.put_user, self._visit, name, password, chosen),
            f"{name} is a user" if is_new else f"{name} has another password",
        )


def removal_form(visit: Visit, after: Callable[[], object]) -> Callable[[str], None]:
    """What is returned opens it for one user."""
    chosen = [""]
    with form("Remove a user", "Permissions and quotas of the name stay.") as dialog:
        who = ui.label("").classes("hw-mono hw-wrap")
        typed = ui.input("Type the user's name").props("outlined dense").classes("full-width")

        async def plan() -> Plan:
            name, said = chosen[0], typed.value or ""
            must_match(name, said)
            return Plan(
                f"{name} could not log in any more.",
                [Row(name, "can log in", "cannot")],
                partial(administration.remove_user, visit, name, said),
                f"Removed user {name}",
            )

        trial = Trial(
            visit,
            Action.CHANGE_USERS,
            dialog,
            plan,
            apply="Remove user",
            after=after,
            is_final=True,
        )
        typed.on_value_change(trial.forget)

    def opened(name: str) -> None:
        chosen[0] = name
        who.set_text(name)
        typed.set_value("")
        dialog.open()

    return opened


class PermissionForm:
    """One more permission, or one more thing that is forbidden."""

    def __init__(self, visit: Visit, after: Callable[[], object]) -> None:
        self._visit = visit
        with form("Permission", "A DENY overrides an ALLOW.") as self._dialog:
            self._who = ui.input("Principal", value="User:").props("outlined dense")
            with ui.element("div").classes("hw-fields-row"):
                self._verb = ui.select(["allow", "deny"], value="allow", label="Verb")
                self._operation = ui.select(list(acls.OPERATIONS), value="read", label="Operation")
                self._kind = ui.select(list(acls.KINDS), value="topic", label="Kind")
            self._name = ui.input("Its name (* for all)").props("outlined dense")
            self._prefix = ui.checkbox("The name is the beginning of names")
            self._host = ui.input("From address", value="*").props("outlined dense")
            for each in (self._who, self._name, self._host):
                each.classes("full-width")
            trial = Trial(
                visit,
                Action.CHANGE_PERMISSIONS,
                self._dialog,
                self._plan,
                apply="Add permission",
                after=after,
            )
            for choice in (self._verb, self._operation, self._kind):
                choice.props("outlined dense").on_value_change(trial.forget)
            for field in (self._who, self._name, self._host):
                field.on_value_change(trial.forget)
            self._prefix.on_value_change(trial.forget)

    def open(self) -> None:
        self._dialog.open()

    async def _plan(self) -> Plan:
        wanted = checked(
            Acl(
                (self._who.value or "").strip(),
                str(self._verb.value),
                str(self._operation.value),
                str(self._kind.value),
                (self._name.value or "").strip(),
                bool(self._prefix.value),
                (self._host.value or "").strip(),
            )
        )
        known = await loaded(partial(acls.listed, self._visit.log.admin, wanted.principal))
        if wanted in known:
            return Plan("Nothing would change: it is already so.")
        return Plan(
            f"{acls.sentence(wanted)}.",
            [Row(f"permissions of {wanted.principal}", str(len(known)), str(len(known) + 1))],
            partial(administration.add_permission, self._visit, wanted),
            acls.sentence(wanted),
        )


class QuotaForm:
    """Limits of one owner: what is left empty is taken away."""

    def __init__(self, visit: Visit, after: Callable[[], object]) -> None:
        self._visit = visit
        self._known: Sequence[Quota] = ()
        with form(
            "Quota",
            f"Of a user, a client id, both together, or an address; {EVERYBODY_ELSE} is all that have none "
            "of their own. An empty limit is removed.",
        ) as self._dialog:
            with ui.element("div").classes("hw-fields-row"):
                self._owner = {
                    kind: ui.input(kind).props("outlined dense") for kind in quotas.KINDS
                }
            self._limits = {}
            for name, meaning in LIMITS.items():
                field = ui.number(name).props("outlined dense").classes("full-width")
                field.props["hint"] = meaning
                self._limits[name] = field
            trial = Trial(
                visit,
                Action.CHANGE_QUOTAS,
                self._dialog,
                self._plan,
                apply="Set quota",
                after=after,
            )
            for each in self._owner.values():
                each.on_value_change(trial.forget)
            for limit in self._limits.values():
                limit.on_value_change(trial.forget)

    def open(self, known: Sequence[Quota], chosen: Quota | None = None) -> None:
        self._known = known
        owner, limits = chosen or Quota({}, {})
        for kind, field in self._owner.items():
            field.set_value((owner[kind] or EVERYBODY_ELSE) if kind in owner else "")
        for name, limit in self._limits.items():
            limit.set_value(limits.get(name))
        self._dialog.open()

    async def _plan(self) -> Plan:
        said = {kind: (field.value or "").strip() for kind, field in self._owner.items()}
        owner = {k: None if v == EVERYBODY_ELSE else v for k, v in said.items() if v}
        now = next((each.limits for each in self._known if each.owner == owner), {})
        wanted = {name: field.value for name, field in self._limits.items()}
        changed = {name: value for name, value in wanted.items() if value != now.get(name)}
        if not changed:
            return Plan("Nothing would change: it is already so.")
        await loaded(partial(administration.set_quota, self._visit, owner, changed, dry_run=True))
        rows = [Row(name, number(now.get(name)), number(v)) for name, v in changed.items()]
        return Plan(
            f"The broker would accept this for {quotas.words(owner)}:",
            rows,
            partial(administration.set_quota, self._visit, owner, changed, dry_run=False),
            f"Changed the quota of {quotas.words(owner)}",
        )
