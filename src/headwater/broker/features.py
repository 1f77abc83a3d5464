"""Which features of Kafka's protocol are in force, and at which level: KIP-584.

ApiVersions tells clients (a Java producer chooses its transaction protocol by `transaction.version`),
UpdateFeatures changes the levels, the catalogue keeps those that were changed. A feature is there if
the API is that it stands for; without a change its level is the highest.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

METADATA_VERSION = "metadata.version"


class Feature(NamedTuple):
    """Levels from `low` to `high`, there if the API `api_key` is."""

    low: int
    high: int
    api_key: int


KNOWN = {
    "group.version": Feature(0, 1, 68),
    METADATA_VERSION: Feature(7, 30, 3),
    "share.version": Feature(0, 1, 76),
    "transaction.version": Feature(0, 2, 24),
}
"""Not here: kraft.version, eligible.leader.replicas.version (one node has no quorum and no replicas)
and streams.version (no streams groups)."""


class Refused(Exception):
    """A level that may not be, in Kafka's words."""


class Update(NamedTuple):
    """One line of UpdateFeatures."""

    feature: str
    level: int
    upgrade_type: int


UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


class Features:
    """The features of one broker. `changed` is the catalogue's own view: name → level."""

    def __init__(self, node_id: int, api_keys: Container[int], changed: Mapping[str, int]) -> None:
        self.supported = {
            name: feature for name, feature in KNOWN.items() if feature.api_key in api_keys
        }
        self._node_id = node_id
        self._changed = changed

    def level(self, name: str) -> int:
        """The level in force; 0 for what is switched off or not there."""
        feature = self.supported.get(name)
        return 0 if feature is None else self._changed.get(name, feature.high)

    def check(self, updates: Sequence[Update]) -> dict[str, int]:
        """The levels that these updates lead to, or `Refused`: all of them or none."""
        levels = {name: self.level(name) for name in self.supported}
        for update in updates:
            self._check_one(update, levels)
            levels[update.feature] = update.level
        return {name: level for name, level in levels.items() if level != self.level(name)}

    def _check_one(self, update: Update, levels: Mapping[str, int]) -> None:
        name, level, kind = update
        invalid = f"Invalid update version {level} for feature {name}."
        if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            raise Refused(f"{invalid} The controller does not support the given upgrade type.")
        if level < 0:
            raise Refused(f"{invalid} A feature version cannot be less than 0.")
        feature = self.supported.get(name)
        who = f"Local controller {self._node_id}"
        if feature is None:
            raise Refused(f"{invalid} {who} does not support this feature.")
        if not feature.low <= level <= feature.high:
            raise Refused(f"{invalid} {who} only supports versions {feature.low}-{feature.high}")
        if level >= levels[name]:
            return
        if kind == UPGRADE:
            raise Refused(
                f"{invalid} Can't downgrade the version of this feature without setting the upgrade "
                "type to either safe or unsafe downgrade."
            )
        if name == METADATA_VERSION:
            why = (
                "Refusing to perform the requested downgrade because it might delete metadata "
                "information."
                if kind == SAFE_DOWNGRADE
                else "Unsafe metadata downgrade is not supported in this version."
            )
            raise Refused(f"Unsupported {name} downgrade from {levels[name]} to {level}. {why}")
