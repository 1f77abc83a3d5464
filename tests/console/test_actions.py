"""Every button that changes something names its action, and every action its role: walked, not trusted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client.log import Log
from headwater.console import actions, forms, pages
from headwater.console.actions import Action, NotAllowed
from headwater.console.context import Context, Visit
from headwater.console.history import History
from headwater.console.jobs import Jobs
from headwater.console.sessions import Visitor
from headwater.console.watching import Watch
from headwater.project.roles import Role

PAGES = [
    path
    for package in (pages, forms)
    for path in sorted(Path(package.__file__).parent.rglob("*.py"))
]
CHANGES = (
    "publish",
    "administration.reset",
    "administration.delete_offsets",
    "administration.put_user",
    "administration.remove_user",
    "administration.add_permission",
    "administration.remove_permission",
    "administration.set_quota",
    "administration.change",
    "replay.replay",
    "replay.send_one",
    "replay.dismiss",
    "jobs.start",
    "jobs.stop",
    "administration.create",
    "administration.configure",
    "administration.configure_broker",
    "administration.grow",
    "administration.delete",
    "administration.write_order",
    "administration.kill_broker",
)
"""What pages call to change something, by the end of its name."""


SENDS = ("publish", "replay.plan")
"""What pages call to send records to a topic that somebody has named."""


def calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id, node


def names_of_actions(tree: ast.AST) -> set[str]:
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "Action"
    }


def test_every_button_of_an_action_names_one() -> None:
    found = 0
    for path in PAGES:
        tree = ast.parse(path.read_text())
        for name, call in calls(tree):
            if name == "action":
                found += 1
                said = ast.unparse(call.args[1])
                is_named = said.startswith("Action.") and said[7:] in Action.__members__
                assert is_named or said == "action", f"{path.name}:{call.lineno} has {said}"
    assert found > 8, "the walk finds none any more: has `elements.action` another name?"


def test_every_action_is_offered_somewhere() -> None:
    used = {name for path in PAGES for name in names_of_actions(ast.parse(path.read_text()))}
    assert used == set(Action.__members__)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_page_that_changes_something_knows_the_action(path: Path) -> None:
    tree = ast.parse(path.read_text())
    called = {ast.unparse(call.func) for _, call in calls(tree)}
    called |= {ast.unparse(a) for name, c in calls(tree) if name == "partial" for a in c.args[:1]}
    changing = {each for each in called if f".{each}".endswith(tuple(f".{c}" for c in CHANGES))}
    if changing:
        assert names_of_actions(tree), f"{path.name} calls {changing} and names no Action"


def test_a_page_that_sends_records_refuses_the_logs_own_topics_first() -> None:
    found = 0
    for path in PAGES:
        tree = ast.parse(path.read_text())
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            nested = [n for n in ast.walk(function) if isinstance(n, ast.AsyncFunctionDef)]
            given = [a for name, c in calls(function) if name == "partial" for a in c.args[:1]]
            if nested in ([], [function]) and any(ast.unparse(a) in SENDS for a in given):
                found += 1
                names = [name for name, _ in calls(function)]
                assert "refuse_own" in names, f"{path.name}:{function.lineno}"
    assert found == 2, "the walk finds others: do they send records where somebody says?"


def test_a_topic_of_the_address_is_asked_of_the_visit() -> None:
    asks = {
        f"{path.parent.name}/{path.stem}" for path in PAGES if "visit.topic()" in path.read_text()
    }
    assert asks == {"pages/__init__", "dead_letters/page", "time_travel/page", "topics/page"}
    for path in PAGES:
        for node in ast.walk(ast.parse(path.read_text())):
            said = ast.unparse(node) if isinstance(node, ast.Subscript | ast.Call) else ""
            for way in (
                "params['topic'",
                "params.get('topic'",
                "query['topic'",
                "query.get('topic'",
            ):
                assert not said.startswith((f"visit.{way}", f"self._visit.{way}")), path.name


@pytest.fixture(scope="module")
def context() -> Iterator[Context]:
    """A console whose log is away."""
    log = Log("127.0.0.1:1", {})
    watch = Watch(log, {}, None)
    yield Context("127.0.0.1:1", {}, None, False, log, History("127.0.0.1:1", {}), watch, Jobs())
    log.close()


@pytest.mark.parametrize(
    "topic",
    [
        "__headwater_changes",
        "__headwater_audit",
        "__headwater_keys",
        "headwater.keys",
        "__x",
        "_headwater_sink",
    ],
)
def test_the_logs_own_topics_are_shown_to_administrators_only(context: Context, topic: str) -> None:
    for role in (Role.READER, Role.OPERATOR):
        for words in ({"params": {"topic": topic}}, {"query": {"topic": topic}}):
            with pytest.raises(NotAllowed, match="takes the role of administrator"):
                Visit(context, **words, visitor=Visitor("x", role)).topic()
        assert Visit(context, {"topic": "orders"}, visitor=Visitor("x", role)).topic() == "orders"
        assert Visit(context, visitor=Visitor("x", role)).topic() == ""
    assert Visit(context, {"topic": topic}).topic() == topic


def test_a_page_whose_session_has_ended_does_nothing_more(context: Context) -> None:
    stands = [True]
    visit = Visit(context, stands=lambda: stands[0])
    visit.must(Action.PUBLISH)
    stands[0] = False
    with pytest.raises(NotAllowed, match="not signed in any more"):
        visit.must(Action.PUBLISH)


@pytest.mark.parametrize("action", Action)
def test_whoever_has_less_than_its_role_is_refused(action: Action) -> None:
    assert action.role > Role.READER, "what changes something is not for readers"
    for role in Role:
        may = role >= action.role
        assert actions.allows(action, role, read_only=False) is may
        assert not actions.allows(action, role, read_only=True)
        with pytest.raises(NotAllowed, match="read-only"):
            actions.check(action, role, read_only=True)
        if may:
            actions.check(action, role, read_only=False)
        else:
            with pytest.raises(NotAllowed, match=f"takes the role of {action.role.word}"):
                actions.check(action, role, read_only=False)
