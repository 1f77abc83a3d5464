"""What a fold means, as a short text that changes when it does: snapshots of another fold are not used.

`Aggregate` asks once, when it is declared. Looked at are the number `fold`, the initial state, the shapes of
state and events (all fields with types and defaults, inherited and nested ones too), every upcaster, and the
code of `apply`: nested functions, defaults, closures, what a partial or a callable object carries, and the
functions, classes and constants of the program that any of these name or import. Code of the standard
library, of other installed packages and of headwater counts by its name; the package that has `apply` or an
event is the program, also where it is installed.

Invariant: whatever could change a state must change the text, or make it empty: then the code cannot be
looked into (a callable in C, a module that is imported later), the programmer has given no `fold`, and no
snapshot may be written or read.
Too many changes only cost time: the events are read again.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import importlib.util
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from headwater.events import models

if TYPE_CHECKING:
    from headwater.events.aggregate import Aggregate

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_INTERNAL = re.compile(r"__.*|_.*_|_abc_impl")
"""Attributes of a class that Python and its libraries have made."""
_INSTALLED = ("site-packages", "dist-packages")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


def fingerprint(aggregate: Aggregate[Any]) -> str:
    """Of this fold; empty where it cannot be known."""
    look = _Look(_program(aggregate))
    parts = [
        str(aggregate.fold),
        *look.at(aggregate.initial),
        *look.at(aggregate.state),
        *look.at(tuple(aggregate.events)),
        *look.at(aggregate.apply),
    ]
    for each in aggregate.upcasters:
        parts += (each.type, str(each.version), str(each.to), *look.at(each.change))
    if look.is_puzzled and aggregate.fold is None:
        return ""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:16]


class _Look:
    """One walk over values, types and code; each of them is spelled once, and named after that."""

    def __init__(self, program: frozenset[str]) -> None:
        self._program = program
        """Packages that are not installed ones of others, wherever they lie."""
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []
        """So that no address is used again."""
        self.is_puzzled = False
        """Something that is called cannot be looked into."""

    def at(self, value: Any) -> Iterator[str]:
        if isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
            return
        if isinstance(value, tuple | frozenset):  # whether two that are equal are one is chance
            yield from self._spelled(value)
            return
        if id(value) in self._seen:
            yield f"again {self._seen[id(value)]}"
            return
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        yield from self._spelled(value)

    def _spelled(self, value: Any) -> Iterator[str]:
        match value:
            case types.CodeType():
                yield from self._code(value)
            case types.FunctionType():
                yield from self._function(value)
            case types.MethodType():
                yield from self._all("method", value.__func__, value.__self__)
            case functools.partial():
                yield from self._all("partial", value.func, value.args, value.keywords)
            case types.ModuleType():
                yield f"module {value.__name__}"
            case Enum():
                yield from self._all(f"member {value.name}", type(value), value.value)
            case type():
                yield from self._class(value)
            case tuple() | list():
                yield from self._all(_name(type(value)), *value)
            case set() | frozenset():
                yield f"set {sorted(map(self._apart, value))}"
            case Mapping():
                yield from self._all(
                    _name(type(value)), *(x for pair in value.items() for x in pair)
                )
            case _:
                yield from self._other(value)

    def _all(self, what: str, *values: Any) -> Iterator[str]:
        yield f"{what} {len(values)}"
        for each in values:
            yield from self.at(each)

    def _apart(self, element: Any) -> str:
        """Of a set, whose order is chance: each is spelled by itself."""
        look = _Look(self._program)
        spelled = " ".join(look.at(element))
        self.is_puzzled = self.is_puzzled or look.is_puzzled
        return spelled

    # ---- code -----------------------------------------------------------------------------------

    def _function(self, function: types.FunctionType) -> Iterator[str]:
        if self._is_foreign(function):
            yield f"function {_name(function)}"
            return
        cells = [_content(each) for each in function.__closure__ or ()]
        parts = (function.__code__, function.__defaults__, function.__kwdefaults__, cells)
        yield from self._all("function", *parts, *_carried(function))
        yield from self._named(function)

    def _code(self, code: types.CodeType) -> Iterator[str]:
        yield f"code {code.co_code.hex()} {code.co_names} {code.co_argcount} {code.co_flags}"
        parameters = code.co_argcount + code.co_kwonlyargcount
        yield f"tried {code.co_exceptiontable.hex()} given {code.co_varnames[:parameters]}"
        for each in code.co_consts:
            yield from self.at(each)

    def _named(self, function: types.FunctionType) -> Iterator[str]:
        """What the code, nested code too, names in its module, and in modules of the program."""
        names, around = _names(function.__code__), function.__globals__
        seen: set[str] = set()
        for name in sorted(names & around.keys()):
            yield f"global {name}"
            yield from self._global(around[name], names, seen)
        for name in sorted(_imports(function.__code__, around.get("__package__") or "")):
            yield f"import {name}"
            if name in sys.modules:
                yield from self._global(sys.modules[name], names, seen)
            else:
                self.is_puzzled = self.is_puzzled or not self._is_of_others(name)

    def _global(self, value: Any, names: set[str], seen: set[str]) -> Iterator[str]:
        yield from self.at(value)
        if not isinstance(value, types.ModuleType) or value.__name__ in seen:
            return
        seen.add(value.__name__)
        if not self._is_installed(value.__name__):
            for each in sorted(names & vars(value).keys()):
                yield f"global {value.__name__}.{each}"
                yield from self._global(vars(value)[each], names, seen)

    # ---- types ----------------------------------------------------------------------------------

    def _class(self, kind: type) -> Iterator[str]:
        yield f"class {_name(kind)}"
        if self._is_foreign(kind):
            return
        for each in kind.__mro__[1:]:
            if not self._is_foreign(each):
                yield from self.at(each)
        for name, hint in sorted(_hints(kind).items()):
            yield f"field {name}"
            yield from self.at(hint)
        for name, default in models.defaults(kind):
            yield f"default {name}"
            yield from self.at(default)
        for name, value in sorted(vars(kind).items()):
            if (function := _method(value)) is not None:
                yield f"method {name}"
                yield from self.at(function)
            elif not _INTERNAL.fullmatch(name) and not self._is_slot(value):
                yield f"attribute {name}"
                yield from self.at(value)

    def _other(self, value: Any) -> Iterator[str]:
        origin = typing.get_origin(value)
        if origin is not None:  # list[Line], Account | None, Annotated[…], Literal[…]
            yield from self._all(f"generic {origin}", *typing.get_args(value))
            return
        kind = type(value)
        yield f"value {_name(kind)}"
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None:
            yield from self.at(wrapped)
        if not self._is_foreign(kind) or dataclasses.is_dataclass(kind):
            yield from self.at(kind)
            yield from self._all("attributes", *sorted(models.attributes(value).items()))
        elif isinstance(value, types.BuiltinFunctionType | types.MethodDescriptorType):
            yield _name(value)
            yield from self.at(getattr(value, "__self__", None))
            known = self._is_installed(value.__module__ or "builtins")
            self.is_puzzled = self.is_puzzled or not known
        elif wrapped is None:
            yield _ADDRESS.sub("", repr(value))
            self.is_puzzled = self.is_puzzled or (callable(value) and not _is_typing(value))

    # ---- whose it is ----------------------------------------------------------------------------

    def _is_installed(self, module: str) -> bool:
        return _top(module) not in self._program and _is_installed(module)

    def _is_foreign(self, value: Any) -> bool:
        module = getattr(value, "__module__", None) or ""
        if module == "types":  # make_dataclass says so of what it makes for the program
            return hasattr(types, getattr(value, "__name__", ""))
        return self._is_installed(module)

    def _is_of_others(self, module: str) -> bool:
        """Whether a module that nobody has imported yet is of Python, of a package, or of headwater."""
        top = _top(module)
        if self._is_installed(top) or top in self._program:
            return top not in self._program
        spec = importlib.util.find_spec(top) if top not in sys.modules else None
        return spec is not None and any(each in (spec.origin or "") for each in _INSTALLED)

    def _is_slot(self, value: Any) -> bool:
        """Where a class keeps a field, and no value: a descriptor that Python or a library has made."""
        return hasattr(type(value), "__get__") and self._is_foreign(type(value))


def _program(aggregate: Aggregate[Any]) -> frozenset[str]:
    """The packages that have the fold or an event: its own, also in the place of installed ones."""
    named = (aggregate.apply, *aggregate.events, *(each.change for each in aggregate.upcasters))
    tops = {_top(getattr(each, "__module__", None) or "") for each in named}
    return frozenset(tops - sys.stdlib_module_names - {"headwater", ""} | {"__main__"})


def _top(module: str) -> str:
    return module.partition(".")[0]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet: a function that names itself
        return None


def _carried(function: types.FunctionType) -> list[Any]:
    """What hangs on a function: those of `singledispatch` for each type, and what it is wrapped around."""
    found = sorted(vars(function).items())
    return [x for k, v in found if k == "__wrapped__" or not k.startswith("_") for x in (k, v)]


def _names(code: types.CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*(_names(each) for each in inner))


def _imports(code: types.CodeType, package: str) -> set[str]:
    """The modules that the code, nested code too, imports itself."""
    found, before = set[str](), list[Any]()
    for each in dis.get_instructions(code):
        if each.opname == "IMPORT_NAME":  # behind its level and what is wanted of it
            name, level = str(each.argval), int(before[-2])
            above = package.rsplit(".", level - 1)[0] if level else ""
            found.add(".".join(part for part in (above, name) if part))
        before.append(each.argval)
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return found.union(*(_imports(each, package) for each in inner))


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"


@functools.lru_cache(maxsize=1_000)
def _is_installed(module: str) -> bool:
    """Of Python, of a package, or of headwater: not the program's own."""
    if _top(module) in sys.stdlib_module_names or _top(module) == "headwater":
        return True
    found = sys.modules.get(module)
    return any(each in (getattr(found, "__file__", None) or "") for each in _INSTALLED)


def _is_typing(value: Any) -> bool:
    return type(value).__module__ in ("typing", "types", "typing_extensions")


def _hints(kind: type) -> dict[str, Any]:
    """All fields of a class, inherited ones too, with their types; names of types where nobody knows them."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception:  # classes made in functions, or for type checkers only
        found: dict[str, Any] = {}
        for each in reversed(kind.__mro__):
            found |= vars(each).get("__annotations__", {})
        return found


def _method(value: Any) -> Any:
    """A function that somebody wrote in a class; those that dataclasses write follow from the fields."""
    if isinstance(value, property):
        return (value.fget, value.fset)
    if isinstance(value, functools.cached_property | functools.partialmethod):
        return (value.func, getattr(value, "args", ()), getattr(value, "keywords", {}))
    if isinstance(value, functools.singledispatchmethod):
        return (value.func, value.dispatcher)
    function = getattr(value, "__func__", value)
    function = getattr(function, "wrapped", function)  # pydantic's validators
    if isinstance(function, types.FunctionType):
        return function if function.__code__.co_filename != "<string>" else None
    return function if function is not value or hasattr(value, "__wrapped__") else None
