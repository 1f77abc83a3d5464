"""What a fold means, as a short text that changes when it does: snapshots of another fold are not used.

`Aggregate` asks once, when it is declared. Looked at are the number `fold`, the initial state, the shapes of
state and events (all fields with types and defaults, inherited and nested ones too), every upcaster, and the
code of `apply`: nested functions, defaults, closures, what a partial or a callable object carries, and the
functions, classes and constants of the program that any of these name. Code of the standard library, of
installed packages and of headwater counts by its name.

Invariant: whatever could change a state must change the text, or make it empty: then the code cannot be
looked into (a callable in C), the programmer has given no `fold`, and no snapshot may be written or read.
Too many changes only cost time: the events are read again.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.events.aggregate import Aggregate

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_INSTALLED = ("site-packages", "dist-packages")
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


def fingerprint(aggregate: Aggregate[Any]) -> str:
    """Of this fold; empty where it cannot be known."""
    look = _Look()
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

    def __init__(self) -> None:
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
                # Its order is chance: each element is spelled by itself.
                yield f"set {sorted(' '.join(_Look().at(each)) for each in value)}"
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

    # ---- code -----------------------------------------------------------------------------------

    def _function(self, function: types.FunctionType) -> Iterator[str]:
        if _is_foreign(function):
            yield f"function {_name(function)}"
            return
        cells = [_content(each) for each in function.__closure__ or ()]
        parts = (function.__code__, function.__defaults__, function.__kwdefaults__, cells)
        yield from self._all("function", *parts)
        yield from self._named(function)

    def _code(self, code: types.CodeType) -> Iterator[str]:
        yield f"code {code.co_code.hex()} {code.co_names} {code.co_argcount} {code.co_flags}"
        for each in code.co_consts:
            yield from self.at(each)

    def _named(self, function: types.FunctionType) -> Iterator[str]:
        """What the code, nested code too, names in its module, and in modules of the program."""
        around = function.__globals__
        for name in sorted(_names(function.__code__)):
            if name not in around:
                continue
            yield f"global {name}"
            value = around[name]
            yield from self.at(value)
            if isinstance(value, types.ModuleType) and not _is_installed(value.__name__):
                inside = vars(value)
                for each in sorted(_names(function.__code__) & inside.keys()):
                    yield f"global {name}.{each}"
                    yield from self.at(inside[each])

    # ---- types ----------------------------------------------------------------------------------

    def _class(self, kind: type) -> Iterator[str]:
        yield f"class {_name(kind)}"
        if _is_foreign(kind):
            return
        for each in kind.__mro__[1:]:
            if not _is_foreign(each):
                yield from self.at(each)
        for name, hint in sorted(_hints(kind).items()):
            yield f"field {name}"
            yield from self.at(hint)
        for name, default in _defaults(kind):
            yield f"default {name}"
            yield from self.at(default)
        for name, value in sorted(vars(kind).items()):
            if (function := _method(value)) is not None:
                yield f"method {name}"
                yield from self.at(function)

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
        elif isinstance(value, types.BuiltinFunctionType | types.MethodDescriptorType):
            yield _name(value)
            self.is_puzzled = self.is_puzzled or not _is_installed(value.__module__ or "builtins")
        elif not _is_foreign(kind):
            yield from self.at(kind)
            yield from self._all("attributes", *_attributes(value))
        else:
            yield _ADDRESS.sub("", repr(value))
            self.is_puzzled = self.is_puzzled or (callable(value) and not _is_typing(value))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet: a function that names itself
        return None


def _names(code: types.CodeType) -> set[str]:
    inner = (each for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*(_names(each) for each in inner))


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"


def _is_foreign(value: Any) -> bool:
    module = getattr(value, "__module__", None) or ""
    if module == "types":  # make_dataclass says so of what it makes for the program
        return hasattr(types, getattr(value, "__name__", ""))
    return _is_installed(module)


@functools.lru_cache(maxsize=1_000)
def _is_installed(module: str) -> bool:
    """Of Python, of a package, or of headwater: not the program's own."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == "headwater":
        return top != "__main__"
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


def _defaults(kind: type) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(kind):
        for each in dataclasses.fields(kind):
            yield each.name, None if each.default is dataclasses.MISSING else each.default
            factory = each.default_factory
            yield each.name, None if factory is dataclasses.MISSING else factory
        return
    if hasattr(kind, "__struct_fields__"):
        yield "struct", tuple(kind.__struct_fields__)
        yield "struct", _ADDRESS.sub("", repr(kind.__struct_defaults__))  # type: ignore[attr-defined]
    elif hasattr(kind, "model_fields"):
        for name, each in kind.model_fields.items():
            yield name, _ADDRESS.sub("", repr(each))
    elif issubclass(kind, Enum):
        yield "members", tuple((each.name, each.value) for each in kind)
    elif hasattr(kind, "_field_defaults"):
        yield "named", tuple(kind._fields) + tuple(kind._field_defaults.items())  # type: ignore[attr-defined]


def _method(value: Any) -> Any:
    """A function that somebody wrote in a class; those that dataclasses write follow from the fields."""
    if isinstance(value, property):
        return (value.fget, value.fset)
    function = getattr(value, "__func__", value)
    function = getattr(function, "wrapped", function)  # pydantic's validators
    if isinstance(function, types.FunctionType) and function.__code__.co_filename != "<string>":
        return function
    return None


def _attributes(value: Any) -> list[Any]:
    found = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                found[name] = getattr(value, name)
    return [each for pair in sorted(found.items()) for each in pair]
