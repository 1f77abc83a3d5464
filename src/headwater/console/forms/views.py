"""A view as a card: how fresh it is, when it was verified; and buttons that verify, repair and rebuild it.

The words of commands that the console starts for a view, all of them written out; pure.
"""

from __future__ import annotations

from urllib.parse import quote

from nicegui import ui

from headwater.console import elements
from headwater.console.actions import Action
from headwater.console.addresses import link
from headwater.console.cards import Said, StateWord
from headwater.console.context import Visit
from headwater.console.flow.graph import LATE_S, TOO_LATE_S
from headwater.console.forms.parts import PartButtons
from headwater.console.jobs import Job
from headwater.console.sentences import ago, duration, number
from headwater.console.watching.queries import QueryNow
from headwater.console.watching.views import ViewNow
from headwater.project.control import VIEW
from headwater.project.file import Project
from headwater.project.parts import placed
from headwater.project.record import Entry
from headwater.secrets import Environment
from headwater.views.operate.progress import Listed

LINES_SHOWN = 12


class ViewCard:
    """One view."""

    def __init__(self, visit: Visit, view: ViewNow, *, chosen: bool) -> None:
        self._visit, self._name = visit, view.name
        self.element = ui.element("section").classes("hw-card" + (" hw-chosen" if chosen else ""))
        self.element.props["aria-label"] = f"View {view.name}"
        with self.element:
            with ui.element("div").classes("hw-row"):
                with ui.element("span").classes("hw-title"):
                    ui.link(view.name, f"/views/{quote(view.name, safe='')}")
                self._state = StateWord()
            with ui.element("div").classes("hw-row hw-small"):
                ui.label(view.to).classes("hw-soft hw-mono hw-wrap")
                ui.link("its query", link("/queries", name=view.name))
            self._trouble = Said("hw-wrong hw-wrap", role="alert")
            with ui.element("div").classes("hw-figures"):
                self._fresh = elements.figure("Freshness", "–")
                self._changed = elements.figure("Last change", "–")
                self._behind = elements.figure("Behind the log", "–")
                self._version = elements.figure("Version", "–")
                self._verified = elements.figure("Verified", "–")
            with ui.expansion("Position in the log").classes("full-width hw-small"):
                self._position = ui.label().classes("hw-lines")
            self._job = _JobShown(visit, view.name)
            self._more = self._actions() if view.in_store else None
            self._paused = ui.label().classes("hw-small hw-wrap")
            self._paused.set_visibility(False)
            self._part = PartButtons(visit, VIEW + view.name)

    def _actions(self) -> ui.element:
        with ui.element("div").classes("hw-row"):
            self._button(Action.VERIFY, "Verify", "verify", (), icon="fact_check")
            self._button(Action.REPAIR, "Repair", "verify", ("--repair",), icon="healing")
            self._button(Action.REBUILD, "Rebuild", "rebuild", (), icon="restart_alt")
            more = ui.element("span").classes("hw-row")
            with more:
                question = f"Remove all versions of {self._name} that readers do not see?"
                self._button(Action.GO_BACK, "Back to the version before", "rebuild", ("--back",))
                self._button(
                    Action.DROP_VERSIONS, "Drop old versions", "rebuild", ("--drop",), question
                )
        more.set_visibility(False)
        return more

    def _button(
        self,
        action: Action,
        text: str,
        command: str,
        options: tuple[str, ...],
        question: str = "",
        icon: str = "",
    ) -> None:
        async def do() -> None:
            if question and not await elements.confirmed(self._visit, action, question, text):
                return
            context = self._visit.context
            assert context.project is not None
            secrets = Environment()
            words = view_command(
                context.project, context.bootstrap, command, self._name, options, secrets
            )
            context.jobs.start(self._name, text, words, secrets)
            self._job.update()

        elements.action(
            self._visit,
            action,
            text,
            do,
            icon=icon or None,
            props="outline dense padding='2px 10px'",
        )

    def update(self, now: ViewNow) -> None:
        self._job.update()
        self._show_part(self._visit.context.watch.parts.view(self._name))
        known = now.listed
        if known is None:
            self._state.set("known by its query only", "calm")
            return
        self._trouble.set(known.trouble)
        if known.trouble:
            self._state.set("cannot be asked", "bad")
        elif known.lag is None:
            self._state.set("not begun", "calm")
        else:
            self._state.set(*_freshness(known.lag.records, known.lag.seconds))
            seconds = f", {duration(known.lag.seconds)}" if known.lag.records else ""
            self._behind.set_text(f"{number(known.lag.records)} records{seconds}")
            self._fresh.set_text(fresh(known))
        self._changed.set_text(last_change(self._visit.context.watch.queries.of(self._name)))
        others = [each for each in known.versions if each != known.version]
        also = f" (also {', '.join(map(str, others))})" if others else ""
        self._version.set_text("–" if known.version is None else f"{known.version}{also}")
        if self._more is not None:
            self._more.set_visibility(bool(others))
        self._verified.set_text(ago(known.verified.at_ms) if known.verified else "never")
        self._position.set_text(str(known.position or "none yet").replace(",", "\n"))

    def _show_part(self, part: Entry | None) -> None:
        self._part.update(part)
        is_paused = part is not None and part.asked_by is not None
        self._paused.set_visibility(is_paused)
        if part is not None and is_paused:
            self._paused.set_text(
                f"Paused by {part.asked_by}, {ago(int((part.since or 0) * 1000))}"
            )


class _JobShown:
    """What was started for a view, while it goes on and after."""

    def __init__(self, visit: Visit, name: str) -> None:
        self._visit, self._name = visit, name
        self._box = ui.element("div").classes("hw-job full-width")
        with self._box:
            with ui.element("div").classes("hw-row"):
                self._what = ui.label().classes("hw-title")
                self._state = StateWord()
                self._stop = elements.action(
                    visit, Action.STOP_JOB, "Stop", self._end, props="flat dense"
                )
            self._bar = ui.linear_progress(0.0, show_value=False).props("rounded size=8px")
            self._lines = ui.label().classes("hw-lines")
        self._box.set_visibility(False)

    def update(self) -> None:
        job = self._visit.context.jobs.of(self._name)
        self._box.set_visibility(job is not None)
        if job is None:
            return
        self._what.set_text(job.what)
        self._state.set(*_outcome(job))
        self._stop.set_visibility(job.is_running)
        self._bar.set_visibility(job.is_running)
        self._bar.props(remove="indeterminate")
        if job.done is None:
            self._bar.props("indeterminate")
        else:
            self._bar.set_value(round(job.done, 3))
        self._lines.set_text("\n".join(list(job.lines)[-LINES_SHOWN:]) or "starting Spark …")

    def _end(self) -> None:
        self._visit.context.jobs.stop(self._name)


def _outcome(job: Job) -> tuple[str, elements.Tone]:
    if job.is_running:
        percent = "" if job.done is None else f", {job.done:.0%}"
        return f"under way{percent}", "warn"
    if job.code == 0:
        return "done", "good"
    if job.words[0] == "verify" and job.code == 1:
        return "not right", "bad"
    return f"failed (code {job.code})", "bad"


def fresh(known: Listed) -> str:
    """What readers of the view may count on now: what its last batch waited for says nothing after it."""
    if known.lag is None:
        return "–"
    if not known.lag.records:
        return "up to date"
    return duration(max(known.lag.seconds, known.freshness_s or 0.0))


def last_change(query: QueryNow | None) -> str:
    """When its last batch was, and how long the oldest change in that had waited."""
    batches = [each for each in (query.history if query else ()) if each.get("batches")]
    if not batches:
        return "not lately"
    waited = batches[-1].get("freshness_seconds")
    after = "" if waited is None else f", had waited {duration(waited)}"
    return f"{ago(int(batches[-1]['at_ms']))}{after}"


def _freshness(records: int, seconds: float) -> tuple[str, elements.Tone]:
    if not records:
        return "up to date", "good"
    tone: elements.Tone = "good" if seconds < LATE_S else "warn" if seconds < TOO_LATE_S else "bad"
    return f"{duration(seconds)} behind", tone


def view_command(
    project: Project,
    bootstrap: str,
    command: str,
    view: str,
    options: tuple[str, ...],
    secrets: Environment,
) -> tuple[str, ...]:
    """`headwater verify VIEW …` or `rebuild`, as the project's file says where things are.

    For a process whose folder is the project's, and whose environment has `secrets`, which are filled.
    """
    words = [command, view, *project.pipelines, *options, "--bootstrap", bootstrap]
    words += ["--checkpoints", project.checkpoints, "--master", project.master]
    return (*words, *placed(project, secrets))
