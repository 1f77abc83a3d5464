"""Where Spark looks: it imports every package named `pyspark_*` and registers its `DefaultSource`.

So `format("headwater")` works in any session of an environment in which headwater is installed, on the
driver and on executors, and nobody registers anything.
"""

from __future__ import annotations

from headwater.spark.datasource import HeadwaterDataSource

__all__ = ["DefaultSource"]


class DefaultSource(HeadwaterDataSource):
    """The name that Spark asks for."""
