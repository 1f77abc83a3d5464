"""Errors by name: one class for one situation, and old names for one release."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import headwater
from headwater.capture import errors as capture_errors
from headwater.events import errors as event_errors

SOURCE = Path(headwater.__file__).parent
_MAY_HAVE_ONE = re.compile(r"class \w*(Refused|Fenced|reachable)\b")


def test_no_two_classes_are_called_refused_or_fenced_or_unreachable():
    names = Counter(
        node.name
        for file in SOURCE.rglob("*.py")
        if _MAY_HAVE_ONE.search(text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef) and node.name.endswith(("Refused", "Fenced", "reachable"))
    )
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        (capture_errors, "Refused", capture_errors.SourceRefused),
        (capture_errors, "Fenced", capture_errors.CaptureFenced),
        (event_errors, "Fenced", event_errors.OwnerFenced),
    ],
)
def test_an_old_name_is_the_new_class_and_says_so(module, old, new):
    with pytest.warns(DeprecationWarning, match=f"{module.__name__}.{new.__name__}"):
        assert getattr(module, old) is new


def test_owners_tell_of_errors_by_the_names_that_other_versions_know():
    assert event_errors.replied_name(event_errors.OwnerFenced("x")) == "Fenced"
    assert event_errors.replied_name(event_errors.DecideFailed("x")) == "DecideFailed"
    assert event_errors.REPLIED["Fenced"] is event_errors.OwnerFenced
