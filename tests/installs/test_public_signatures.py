"""What is public is typed: no signature says `Any`, nor does an alias that stands in one."""

from __future__ import annotations

import ast
import inspect
import sys
import typing
from collections.abc import Iterator
from importlib import import_module

import pytest

MODULES = (
    "headwater",
    "headwater.views",
    "headwater.events",
    "headwater.processing",
    "headwater.testing",
    "headwater.edges",
)


def signatures(name: str, value: object) -> Iterator[tuple[str, str, dict[str, object]]]:
    """Every annotation of a name and of what it offers: where, its text, and the names it can use."""
    if isinstance(value, property):
        value = value.fget
    value = inspect.unwrap(getattr(value, "__func__", value))  # type: ignore[arg-type]
    module = getattr(value, "__module__", "")
    if inspect.ismodule(value):
        for each in getattr(value, "__all__", ()):
            yield from signatures(f"{name}.{each}", getattr(value, each))
    elif inspect.isclass(value) and module.startswith("headwater"):
        yield from annotations(name, value)
        for each, member in vars(value).items():
            if not each.startswith("_") or each in ("__init__", "__call__", "__getitem__"):
                yield from signatures(f"{name}.{each}", member)
    elif inspect.isfunction(value) and module.startswith("headwater"):
        yield from annotations(name, value)


def annotations(name: str, value: object) -> Iterator[tuple[str, str, dict[str, object]]]:
    names = vars(sys.modules[value.__module__])
    for each, text in inspect.get_annotations(value).items():  # type: ignore[arg-type]
        if not each.startswith("_"):
            yield f"{name}({each}: {text})", str(text), names


def says_any(text: str, names: dict[str, object]) -> bool:
    used = [node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
    aliases = [names[each] for each in used if each in names]
    return "Any" in used or any(
        "typing.Any" in repr(alias) for alias in aliases if not inspect.isclass(alias)
    )


@pytest.mark.parametrize("module", MODULES)
def test_no_signature_of_a_public_name_says_any(module: str) -> None:
    found = import_module(module)
    every = [each for name in found.__all__ for each in signatures(name, getattr(found, name))]
    assert len(every) > 5, "this looked at nothing"
    assert [where for where, text, names in every if says_any(text, names)] == []


def test_an_any_is_found_wherever_it_hides() -> None:
    names: dict[str, object] = {"Alias": dict[str, typing.Any], "int": int}
    assert says_any("list[Any]", names) and says_any("Callable[[Alias], None]", names)
    assert not says_any("dict[str, int] | Anything", names)
