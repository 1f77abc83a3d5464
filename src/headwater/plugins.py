"""What installed packages offer by entry points: targets of views, bridges.

    [project.entry-points."headwater.targets"]
    clickhouse = "headwater_clickhouse:ClickHouseTarget"

Asked by the registries, for a name that headwater itself does not have. Nothing is imported to look.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import NamedTuple

from headwater.errors import HeadwaterError

TARGETS = "headwater.targets"
BRIDGES_IN = "headwater.bridges.in"
BRIDGES_OUT = "headwater.bridges.out"


class Offer(NamedTuple):
    """One name that a package offers."""

    package: str
    place: str
    """`package.module:Class`."""


class OfferedTwice(HeadwaterError):
    """Two packages offer the same name, and mean two things."""


def offered(group: str) -> Mapping[str, tuple[Offer, ...]]:
    """By name. A package that is found twice (an editable install beside another) is one."""
    return _offered(group, tuple(sys.path))


@cache
def _offered(group: str, path: tuple[str, ...]) -> Mapping[str, tuple[Offer, ...]]:
    del path  # a project's own folder is added to it after the start
    found: dict[str, dict[Offer, None]] = {}
    for each in entry_points(group=group):
        package = each.dist.name if each.dist is not None else "a package"
        found.setdefault(each.name, {})[Offer(package, each.value)] = None
    return {name: tuple(offers) for name, offers in found.items()}


def offer(group: str, name: str) -> Offer | None:
    """The package that offers a name; OfferedTwice where it cannot be told which is meant."""
    offers = offered(group).get(name, ())
    if len(offers) > 1:
        packages = " and ".join(each.package for each in offers)
        raise OfferedTwice(
            f"the packages {packages} both offer {name}: in {group}",
            hint=f"uninstall one of them: pip uninstall {offers[1].package}",
        )
    return offers[0] if offers else None
