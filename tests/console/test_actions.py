"""Every button that changes something names its action, and every action its role: walked, not trusted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.console import actions, pages
from headwater.console.actions import Action, NotAllowed
from headwater.project.roles import Role

PAGES = sorted(Path(pages.__file__).parent.glob("*.py"))
CHANGES = (
    "publish",
    "groups.apply_reset",
    "replay.replay",
    "replay.send_one",
    "replay.dismiss",
    "jobs.start",
    "jobs.stop",
)
"""What pages call to change something, by the end of its name."""


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


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_that_changes_something_knows_the_action(path: Path) -> None:
    tree = ast.parse(path.read_text())
    called = {ast.unparse(call.func) for _, call in calls(tree)}
    called |= {ast.unparse(a) for name, c in calls(tree) if name == "partial" for a in c.args[:1]}
    changing = {each for each in called if f".{each}".endswith(tuple(f".{c}" for c in CHANGES))}
    if changing:
        assert names_of_actions(tree), f"{path.name} calls {changing} and names no Action"


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
