"""Access: who can log in, what they may do, and how much of it; for administrators."""

from __future__ import annotations

from functools import partial

from nicegui import events, ui

from headwater.client import acls, quotas, users
from headwater.client.acls import Acl
from headwater.client.errors import told
from headwater.client.quotas import Quota
from headwater.console import elements, live
from headwater.console.actions import Action
from headwater.console.administration import access as administration
from headwater.console.context import Visit
from headwater.console.forms.access import PermissionForm, QuotaForm, UserForm, removal_form
from headwater.console.live import loaded
from headwater.console.pages import Page
from headwater.console.sentences import number
from headwater.project.roles import Role

EVERY_S = 5.0
TABS = {"users": "Users", "permissions": "Permissions", "quotas": "Quotas"}


def show(visit: Visit) -> None:
    elements.heading("Access", "Who can log in, what they may do, and how much of it.")
    tabs = ui.tabs().props('dense no-caps align=left aria-label="What to see of access"')
    with tabs:
        for name, title in TABS.items():
            ui.tab(name, title)
    with ui.tab_panels(tabs, value=visit.query.get("tab", "users"), animated=False):
        for name, part in (("users", _Users), ("permissions", _Permissions), ("quotas", _Quotas)):
            with ui.tab_panel(name):
                part(visit)


def _columns(*named: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = [
        {"name": n, "label": n.capitalize(), "field": n, "align": "left", "sortable": True}
        for n in named
    ]
    return [*found, {"name": "do", "label": "", "field": "do", "align": "right"}]


def _buttons(*named: tuple[str, str, str]) -> str:
    """Event, icon and words of each; the row's id goes with it."""
    made = "".join(
        f"""<q-btn flat dense round icon="{icon}" size="sm" :aria-label="'{words} ' + props.row.title"
        @click="() => $parent.$emit('{event}', props.row.id)"></q-btn>"""
        for event, icon, words in named
    )
    return f'<q-td :props="props" class="hw-nowrap">{made}</q-td>'


_MONO = '<q-td :props="props" class="hw-mono hw-wrap hw-access">{{ props.value }}</q-td>'


def _table(words: ui.input, columns: list[dict[str, object]], buttons: str, none: str) -> ui.table:
    table = ui.table(columns=columns, rows=[], row_key="id", pagination=100)
    table.classes("hw-list").props('flat dense :rows-per-page-options="[100, 500, 0]"')
    table.props["no-data-label"] = none
    for column in columns[:-1]:
        table.add_slot(f"body-cell-{column['name']}", _MONO)
    table.add_slot("body-cell-do", buttons)
    table.bind_filter_from(words, "value", lambda value: value or "")
    return table


def _filter() -> ui.input:
    return ui.input("Filter").props("dense outlined clearable").classes("hw-goto")


class _Users:
    """SCRAM users of the log."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._found: dict[str, list[str]] = {}
        self._form = UserForm(visit, lambda: self._kept.soon())
        self._remove = removal_form(visit, lambda: self._kept.soon())
        with ui.element("div").classes("hw-tools"):
            words = _filter()
            elements.action(
                visit,
                Action.CHANGE_USERS,
                "New user",
                lambda: self._form.open(self._found),
                icon="person_add",
            )
        with elements.card("Users"):
            none = "There are no users: whoever reaches the broker is User:ANONYMOUS."
            buttons = _buttons(("again", "key", "New password of"), ("gone", "delete", "Remove"))
            self._table = _table(words, _columns("user", "mechanisms"), buttons, none)
            self._table.on("again", self._again)
            self._table.on("gone", lambda event: self._remove(str(event.args)))
        self._kept = live.keep(self._load, self._draw, EVERY_S)

    def _load(self) -> dict[str, list[str]]:
        log = self._visit.context.log
        with told("listing users", log.bootstrap):
            return users.listed(log.admin)

    def _again(self, event: events.GenericEventArguments) -> None:
        self._form.open(self._found, str(event.args))

    def _draw(self, found: dict[str, list[str]]) -> None:
        self._found = found
        self._table.rows = [
            {"id": name, "title": name, "user": name, "mechanisms": ", ".join(mechanisms)}
            for name, mechanisms in sorted(found.items())
        ]


class _Permissions:
    """ACLs, of everybody."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._found: list[Acl] = []
        self._form = PermissionForm(visit, lambda: self._kept.soon())
        with ui.element("div").classes("hw-tools"):
            words = _filter()
            elements.action(
                visit, Action.CHANGE_PERMISSIONS, "New permission", self._form.open, icon="add"
            )
        with elements.card("Permissions"):
            none = "There are none; they count where the broker has an authorizer.class.name."
            columns = _columns("rule", "principal", "permission", "operation", "resource", "host")
            for column in columns[:-1]:
                width = "hw-only-narrow" if column["name"] == "rule" else "hw-only-wide"
                column |= {"classes": width, "headerClasses": width}
            self._table = _table(words, columns, _buttons(("gone", "delete", "Remove")), none)
            remove = elements.guarded(visit, Action.CHANGE_PERMISSIONS, self._remove)
            self._table.on("gone", remove)
        self._kept = live.keep(self._load, self._draw, EVERY_S)

    def _load(self) -> list[Acl]:
        log = self._visit.context.log
        with told("listing permissions", log.bootstrap):
            return sorted(acls.listed(log.admin))

    async def _remove(self, event: events.GenericEventArguments) -> None:
        for acl in [each for each in self._found if acls.sentence(each) == str(event.args)][:1]:
            question = f"Remove this permission? {acls.sentence(acl)}."
            action = Action.CHANGE_PERMISSIONS
            if await elements.confirmed(self._visit, action, question, "Remove"):
                await loaded(partial(administration.remove_permission, self._visit, acl))
                elements.notify(f"Removed: {acls.sentence(acl)}")
                await self._kept.again()

    def _draw(self, found: list[Acl]) -> None:
        self._found = found
        self._table.rows = [
            {
                "id": acls.sentence(each),
                "title": f"that {acls.sentence(each)}",
                "rule": acls.sentence(each),
                "principal": each.principal,
                "permission": each.permission,
                "operation": each.operation,
                "resource": f"{each.kind} {each.name}{'*' if each.is_prefix else ''}",
                "host": each.host,
            }
            for each in found
        ]


class _Quotas:
    """How much may be done."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._found: list[Quota] = []
        self._form = QuotaForm(visit, lambda: self._kept.soon())
        with ui.element("div").classes("hw-tools"):
            words = _filter()
            elements.action(
                visit,
                Action.CHANGE_QUOTAS,
                "New quota",
                lambda: self._form.open(self._found),
                icon="add",
            )
        with elements.card("Quotas"):
            none = "There are no quotas: nobody is held up."
            buttons = _buttons(("edit", "edit", "Change the quota of"))
            self._table = _table(words, _columns("owner", "limits"), buttons, none)
            self._table.on("edit", self._edit)
        self._kept = live.keep(partial(quotas.listed, visit.context.log), self._draw, EVERY_S)

    def _edit(self, event: events.GenericEventArguments) -> None:
        chosen = [each for each in self._found if quotas.words(each.owner) == str(event.args)]
        self._form.open(self._found, chosen[0] if chosen else None)

    def _draw(self, found: list[Quota]) -> None:
        self._found = found
        self._table.rows = [
            {
                "id": quotas.words(each.owner),
                "title": quotas.words(each.owner),
                "owner": quotas.words(each.owner),
                "limits": ", ".join(f"{k} {number(v)}" for k, v in sorted(each.limits.items())),
            }
            for each in found
        ]


PAGES = [Page("/access", "Access", show, icon="key", order=84, role=Role.ADMINISTRATOR)]
