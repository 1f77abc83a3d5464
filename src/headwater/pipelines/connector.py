"""Spark's own Kafka connector, which real-time speed needs: its jars on this machine.

Called before the session is made, where a file speaks of `real-time`. Maven resolves them (its
own settings say from where) into the user's cache, once. The versions are those that work together
with PySpark 4.2 and 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headwater.pipelines import maven
from headwater.pipelines.declared import REAL_TIME, View
from headwater.pipelines.errors import NotRealTime
from headwater.pipelines.loading import Source

VERSION = "4.2.0"
_JARS = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.0"),
)
_NEEDED = "it needs the jars of Spark's Kafka connector"


@dataclass(frozen=True)
class Connector:
    """The jars, or why there are none."""

    jars: tuple[Path, ...] = ()
    reason: str | None = None

    def admit(self, view: View) -> None:
        """NotRealTime if the view asks for what is not there."""
        if view.speed == REAL_TIME and not self.jars:
            raise NotRealTime(
                f"the view {view.name!r} ({view.place}) cannot run at real-time speed: {self.reason}",
                hint="leave out speed= to run it in micro-batches",
            )


def connector_for(sources: Iterable[Source], remote: str | None) -> Connector:
    """What the files may need: the session takes jars only when it is made, before they are run."""
    if not any(REAL_TIME in source.text for source in sources):
        return Connector(reason="it says so in words that were not found in the files")
    if remote is not None:
        return Connector(reason="a Spark Connect server cannot be given the connector it needs")
    return _resolved()


def _resolved() -> Connector:
    try:
        # Only the jars themselves: what else they depend on is in Spark already.
        folder = maven.fetched(f"spark-kafka-{VERSION}", _JARS, alone=True)
    except maven.NotFetched as error:
        return Connector(reason=f"{_NEEDED}, and {error.args[0]}")
    return Connector(jars=tuple(sorted(folder.glob("*.jar"))))
