"""What a view's `to` means: the part before the first colon, to a class made from `Target`.

Asked by the runner and by every command that opens a view. There are two sorts of targets:

    stores      keep rows, their position and versions of a view
    the others  are written to by Spark itself (a topic, files): one version, whose position is in the query's
                checkpoint

The stores are named here by module, so that only the one that is used is loaded. Packages further out name
what they have with `register`, as programs do; those of others by an entry point of
the group `headwater.targets`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import cast

from headwater import plugins
from headwater.errors import HeadwaterError
from headwater.secrets import expand
from headwater.views.targets.contract import DELETED, VALID_FROM, VALIDITY, Kind, Shape, Target

Factory = Callable[[str, Shape], Target]
"""Gets all of `to`, and the view's shape. A subclass of `Target` is one."""

_STORES: dict[str, Factory | str] = {
    "sqlite": "headwater.views.targets.sqlite.target:SqliteTarget",
    "postgresql": "headwater.views.targets.postgres.target:PostgresTarget",
    "postgres": "headwater.views.targets.postgres.target:PostgresTarget",
    "redis": "headwater.views.targets.redis.target:RedisTarget",
    "rediss": "headwater.views.targets.redis.target:RedisTarget",
    "search": "headwater.views.targets.search.target:SearchTarget",
    "opensearch+http": "headwater.views.targets.opensearch.target:OpenSearchTarget",
    "opensearch+https": "headwater.views.targets.opensearch.target:OpenSearchTarget",
    "elasticsearch+http": "headwater.views.targets.opensearch.target:OpenSearchTarget",
    "elasticsearch+https": "headwater.views.targets.opensearch.target:OpenSearchTarget",
    "duckdb": "headwater.views.targets.duckdb.target:DuckdbTarget",
    "delta": "headwater.views.targets.delta.target:DeltaTarget",
}
_OTHERS: dict[str, Factory | str] = {}


ADDED: Mapping[Kind, tuple[str, ...]] = {
    Kind.APPEND: (DELETED,),
    Kind.UPSERT: (DELETED,),
    Kind.HISTORY: (DELETED, VALID_FROM, *VALIDITY),
}
"""Columns beside the view's own, in what is staged or in what readers see."""


class NoSuchTarget(HeadwaterError):
    """A `to` that names no target, or one that cannot do what the view asks."""


def register(scheme: str, factory: Factory | str, *, is_store: bool = True) -> None:
    """Make `to="scheme:…"` mean this target; as text, `package.module:Class`, it is loaded when used.

    `is_store` is false for headwater's own places that Spark writes to itself, without versions.
    """
    if _OTHERS.get(scheme, factory) != factory or (scheme in _STORES and not is_store):
        raise NoSuchTarget(f"{scheme}: is headwater's own", hint="give the target another name")
    (_STORES if is_store else _OTHERS)[scheme] = factory


def schemes() -> list[str]:
    """Of every place that a view can go to."""
    return list(dict.fromkeys([*_OTHERS, *_STORES, *plugins.offered(plugins.TARGETS)]))


def scheme_of(to: str) -> str:
    return to.partition(":")[0]


def is_store(to: str) -> bool:
    """Whether a view's `to` means a store, which keeps its position and its versions."""
    scheme = scheme_of(to)
    if ":" not in to or scheme in _OTHERS:
        return False
    return scheme in _STORES or scheme in plugins.offered(plugins.TARGETS)


def kinds_of(to: str) -> frozenset[Kind]:
    """How the target can keep rows; nothing, where it is a function that makes one."""
    return getattr(_factory(to), "kinds", frozenset())


def target_for(to: str, shape: Shape) -> Target:
    """The target of a view; nothing is opened yet. Secrets that `to` names are put in here only."""
    factory = _factory(to)
    if isinstance(factory, type) and shape.kind not in getattr(factory, "kinds", ()):
        kinds = ", ".join(sorted(kind.value for kind in getattr(factory, "kinds", ())))
        raise NoSuchTarget(
            f"{to} does not keep the view {shape.view!r} as {shape.kind.value}",
            hint=f"give it kind={kinds!r}"
            if "," not in kinds
            else f"give it one of the kinds {kinds}",
        )
    if shape.kind is not Kind.APPEND and not shape.key:
        raise NoSuchTarget(
            f"the view {shape.view!r} is kept as {shape.kind.value}, and has no key",
            hint=f"name its columns: @hw.view({shape.view!r}, key=…)",
        )
    taken = [name for name in ADDED[shape.kind] if name in shape.schema.names]
    if taken:
        raise NoSuchTarget(
            f"the view {shape.view!r} has a column {taken[0]!r}, which headwater adds itself",
            hint="give the column another name in the view's query",
        )
    return factory(expand(to), shape)


def _factory(to: str) -> Factory:
    scheme = scheme_of(to)
    found = (_OTHERS.get(scheme) or _STORES.get(scheme)) if ":" in to else None
    if found is None:
        offer = plugins.offer(plugins.TARGETS, scheme) if ":" in to else None
        if offer is None:
            raise NoSuchTarget(f"{to!r} names no target", hint=f"use one of {_listed()}")
        return _of_a_package(to, offer)
    return cast(Factory, _loaded(to, found)) if isinstance(found, str) else found


def _listed() -> str:
    return ", ".join(f"{name}:" for name in schemes() if name not in _OTHERS)


def _of_a_package(to: str, offer: plugins.Offer) -> Factory:
    module, _, name = offer.place.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise NoSuchTarget(
            f"{scheme_of(to)}: is offered by the package {offer.package}, which cannot be loaded: {error}",
            hint=f"install it again: pip install --force-reinstall {offer.package}",
        ) from error
    if not (isinstance(found, type) and issubclass(found, Target)):
        raise NoSuchTarget(
            f"{scheme_of(to)}: is offered by the package {offer.package} as {offer.place}, which is no "
            "class made from headwater.views.Target",
            hint="docs/targets.md shows how to write one",
        )
    return found


def _loaded(to: str, place: str) -> object:
    module, _, name = place.partition(":")
    try:
        found: object = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise NoSuchTarget(
            f"{to} needs the package {error.name}, which is not installed",
            hint="pip install 'headwater[all]'",
        ) from error
    return found
