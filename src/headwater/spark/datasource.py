"""What Spark finds under `format("headwater")`: one class that hands out readers and writers.

Spark makes it in a short-lived Python process for each query (`pyspark_headwater` names it) and pickles
it to wherever the readers run. So everything that is needed only there is imported there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class HeadwaterDataSource(DataSource):
    """Topics of a Kafka log, with the options and columns of Spark's own Kafka source."""

    @classmethod
    def name(cls) -> str:
        return "headwater"

    def schema(self) -> str:
        from headwater.spark import worker
        from headwater.spark.source.options import SourceOptions

        worker.settle()
        return SourceOptions.of(self.options).ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        from headwater.spark.source.batch import BatchReader

        return BatchReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from headwater.spark.source.stream import StreamReader

        return StreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from headwater.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from headwater.spark.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
