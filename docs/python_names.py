"""The page of public Python names, from their signatures and docstrings; called by generate.py."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

MODULES = ("headwater", "headwater.views", "headwater.events", "headwater.testing")
"""Whatever these offer in `__all__` is public; what is in no such list may change without a word."""
PROCESSING = "headwater.processing"
METHODS = {"Broker": ("start", "stop")}
"""Of a class whose other methods are for the broker itself."""

HEAD = """
# Python

Every public name. What is not here may change without a word in the changelog. `import headwater as hw` is
enough for all of them: what a name needs is loaded when it is first used, and says which extra to install
where it is missing.
"""


def page() -> str:
    parts = [HEAD]
    for module in (*MODULES, PROCESSING):
        names = [name for name in _offered(module) if not name.startswith("__")]
        if names:
            parts.append(f"## {module}\n\n{_first(import_module(module))}\n")
            parts.extend(_entry(module, name) for name in names)
    return "\n".join(parts)


def _offered(module: str) -> list[str]:
    return list(getattr(import_module(module), "__all__", []))


def _entry(module: str, name: str) -> str:
    value = getattr(import_module(module), name)
    lines = [f"### {module}.{name}\n", _code(name, value), f"{_doc(value)}\n"]
    if inspect.isclass(value):
        lines.extend(
            f"**`{name}.{method}`**\n\n{_code(method, function)}\n{_doc(function)}\n"
            for method, function in _methods(value)
        )
    return "\n".join(lines)


def _code(name: str, value: Any) -> str:
    if inspect.isclass(value) and issubclass(value, BaseException):
        return ""
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
