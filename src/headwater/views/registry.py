"""Which target a view's `to` means: the part before the first colon, to a class.

Asked by the runner and by every command that opens a view. Targets of headwater are named here by
module, so that only the one that is used is loaded; others are added with `register`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from headwater.errors import HeadwaterError
from headwater.views.target import Kind, Shape, Target

Factory = Callable[[str, Shape], Target]
"""Gets all of `to`, and the view's shape. A subclass of `Target` is one."""

_KNOWN: dict[str, Factory | str] = {
    "sqlite": "headwater.views.sqlite:SqliteTarget",
    "postgresql": "headwater.views.postgres:PostgresTarget",
    "postgres": "headwater.views.postgres:PostgresTarget",
    "redis": "headwater.views.redis:RedisTarget",
    "rediss": "headwater.views.redis:RedisTarget",
    "search": "headwater.views.search:SearchTarget",
    "opensearch+http": "headwater.views.opensearch:OpenSearchTarget",
    "opensearch+https": "headwater.views.opensearch:OpenSearchTarget",
    "elasticsearch+http": "headwater.views.opensearch:OpenSearchTarget",
    "elasticsearch+https": "headwater.views.opensearch:OpenSearchTarget",
    "duckdb": "headwater.views.duckdb:DuckdbTarget",
    "delta": "headwater.views.delta:DeltaTarget",
}


class NoSuchTarget(HeadwaterError):
    """A `to` that names no target, or one that cannot do what the view asks."""


def register(scheme: str, factory: Factory | str) -> None:
    """Make `to="scheme:…"` mean this target; as text, `package.module:Class`, it is loaded when used."""
    _KNOWN[scheme] = factory


def schemes() -> list[str]:
    return list(_KNOWN)


def scheme_of(to: str) -> str:
    return to.partition(":")[0]


def is_target(to: str) -> bool:
    """Whether a view's `to` means one of these."""
    return ":" in to and scheme_of(to) in _KNOWN


def target_for(to: str, shape: Shape) -> Target:
    """The target of a view; nothing is opened yet."""
    factory = _factory(to)
    if isinstance(factory, type) and shape.kind not in getattr(factory, "kinds", ()):
        kinds = ", ".join(sorted(kind.value for kind in getattr(factory, "kinds", ())))
        raise NoSuchTarget(
            f"{to} does not keep the view {shape.view!r} as {shape.kind.value}",
            hint=f"it can do: {kinds}",
        )
    if shape.kind is not Kind.APPEND and not shape.key:
        raise NoSuchTarget(
            f"the view {shape.view!r} is kept as {shape.kind.value}, and has no key",
            hint=f"name its columns: @hw.view({shape.view!r}, key=…)",
        )
    return factory(to, shape)


def _factory(to: str) -> Factory:
    found = _KNOWN.get(scheme_of(to)) if ":" in to else None
    if found is None:
        raise NoSuchTarget(
            f"{to!r} names no target", hint=f"there are {', '.join(f'{name}:' for name in _KNOWN)}"
        )
    if not isinstance(found, str):
        return found
    module, _, name = found.partition(":")
    try:
        factory: Factory = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise NoSuchTarget(
            f"{to} needs the package {error.name}, which is not installed",
            hint="pip install 'headwater[all]'",
        ) from error
    return factory
