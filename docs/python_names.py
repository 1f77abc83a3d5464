"""The page of public Python names, from their signatures and docstrings; called by generate.py."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, is_typeddict

MODULES = (
    "headwater",
    "headwater.views",
    "headwater.events",
    "headwater.processing",
    "headwater.testing",
    "headwater.edges",
)
"""Whatever these offer in `__all__` is public; what is in no such list may change without a word."""
METHODS: dict[str, tuple[str, ...]] = {
    "Application": ("start", "ready", "close", "send", "held", "state"),
    "Broker": ("start", "stop"),
    "InboundConformance": (),
    "OutboundConformance": (),
    "TargetConformance": (),
    "Window": (),
}
"""Of a class whose other methods are for headwater itself, or are tests."""

HEAD = """
# Python

Every public name. What is not here may change without a word in the changelog. `import headwater as hw` is
enough for all of them: what a name needs is loaded when it is first used, and says which extra to install
where it is missing. A name that is given up works for one more release, with a `DeprecationWarning` that says
the new one (`python -W default::DeprecationWarning` shows them all).
"""


def page() -> str:
    return "\n".join([HEAD, *(part for module in MODULES for part in _section(module))])


def _section(name: str) -> Iterator[str]:
    """A module's names, then those of the modules that it offers."""
    module = import_module(name)
    offered = [each for each in module.__all__ if not each.startswith("__")]
    inner = [each for each in offered if isinstance(getattr(module, each), ModuleType)]
    yield f"## {name}\n\n{_first(module)}\n"
    yield from (_entry(module, each) for each in offered if each not in inner)
    for each in inner:
        if f"{name}.{each}" not in MODULES:
            yield from _section(f"{name}.{each}")


def _entry(module: ModuleType, name: str) -> str:
    value = getattr(module, name)
    head = f"### {module.__name__}.{name}\n"
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        home = import_module(getattr(module, "_HOME", {}).get(name, module.__name__))
        return f"{head}\n{_assigned(home, name)}\n"
    lines = [head, _code(name, value), f"{_doc(value)}\n"]
    if inspect.isclass(value):
        if fields := _fields(value):
            lines.append("\n".join(f"- `{each}`: {text}" for each, text in fields) + "\n")
        lines.extend(
            f"**`{name}.{method}`**\n\n{_code(method, function)}\n{_doc(function)}\n"
            for method, function in _methods(value)
        )
    return "\n".join(lines)


def _code(name: str, value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, BaseException):
        return ""
    if is_typeddict(value):
        fields = [
            f"    {key}: {kind.__forward_arg__}" for key, kind in value.__annotations__.items()
        ]
        return "\n".join(["```text", f"class {name}(TypedDict):", *fields, "```\n"])
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    word = "class " if inspect.isclass(value) else "def "
    if inspect.iscoroutinefunction(value):
        word = "async def "
    text = _wrapped(f"{word}{name}", signature)
    return f"```text\n{text}\n```\n"


def _wrapped(start: str, signature: inspect.Signature) -> str:
    """On one line where it fits, else a parameter per line."""
    shown = [
        parameter.replace(annotation=_bare(parameter.annotation))
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    returned = inspect.Signature.empty if start.startswith("class") else signature.return_annotation
    signature = inspect.Signature(shown, return_annotation=_bare(returned))
    line = f"{start}{signature}"
    if len(line) <= 90:
        return line
    parts, seen_star = [], False
    for parameter in shown:
        if parameter.kind is parameter.VAR_POSITIONAL:
            seen_star = True
        if parameter.kind is parameter.KEYWORD_ONLY and not seen_star:
            parts.append("    *,")
            seen_star = True
        parts.append(f"    {parameter},")
    end = line.rpartition(")")[2]
    return "\n".join([f"{start}(", *parts, f"){end}"])


class _Words(str):
    """An annotation that is shown without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _bare(annotation: Any) -> Any:
    return _Words(annotation) if isinstance(annotation, str) else annotation


@cache
def _body(module: str) -> list[ast.stmt]:
    return ast.parse(inspect.getsource(import_module(module))).body


def _assigned(home: ModuleType, name: str) -> str:
    """A constant or another name for a type, as the source says it, with what is written under it."""
    for number, node in enumerate(body := _body(home.__name__)):
        if _target(node) == name:
            text = ast.unparse(node)
            return f"```text\n{text}\n```\n\n{_text_after(body, number)}"
        if isinstance(node, ast.ImportFrom) and any(each.name == name for each in node.names):
            return _assigned(import_module(node.module or ""), name)
    raise LookupError(f"{home.__name__} does not assign {name}")


def _fields(owner: type) -> list[tuple[str, str]]:
    """Attributes that have a sentence of their own."""
    source = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    assert isinstance(source, ast.ClassDef)
    found = [(_target(node), _text_after(source.body, n)) for n, node in enumerate(source.body)]
    return [(name, text) for name, text in found if name and text and not name.startswith("_")]


def _target(node: ast.stmt) -> str:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


def _text_after(body: list[ast.stmt], number: int) -> str:
    after = body[number + 1] if number + 1 < len(body) else None
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        return " ".join(str(after.value.value).split())
    return ""


def _methods(owner: type) -> Iterator[tuple[str, Any]]:
    for name, value in vars(owner).items():
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        wanted = METHODS.get(owner.__name__, (name,))
        if name.startswith("_") or name not in wanted or not inspect.isfunction(function):
            continue
        if function.__doc__:
            yield name, function


def _first(module: object) -> str:
    return (inspect.getdoc(module) or "").partition("\n\n")[0]


def _doc(value: object) -> str:
    """A docstring as Markdown: what is indented in it is code."""
    out: list[str] = []
    inside = False
    for line in (inspect.getdoc(value) or "").splitlines():
        if line.startswith("    ") and not inside and (not out or not out[-1].strip()):
            out.append("```text")
            inside = True
        elif inside and line.strip() and not line.startswith("    "):
            while out and not out[-1].strip():
                out.pop()
            out += ["```", ""]
            inside = False
        out.append(line[4:] if inside else line)
    return "\n".join([*out, "```"] if inside else out)
