"""Small files on shared storage, read and written by the driver: the manifests of a view's state.

By the clients that Spark has for its own checkpoints, so whatever takes a checkpoint takes these: a folder
that all machines see, HDFS, an object store. Made by `batch`, used by `chain`. As durable as Spark's
checkpoint is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.views.targets.contract import Fenced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MANAGER = "CheckpointFileManager$"


class Folder:
    """One folder, by its address as Spark takes it."""

    def __init__(self, spark: SparkSession, address: str) -> None:
        assert spark._jvm is not None
        self.address = address.rstrip("/")
        self._path = spark._jvm.org.apache.hadoop.fs.Path
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._files = self._path(self.address).getFileSystem(self._conf)
        streaming = spark._jvm.org.apache.spark.sql.execution.streaming
        self._managers = getattr(getattr(streaming.checkpointing, _MANAGER), "MODULE$")

    def of(self, name: str) -> str:
        return f"{self.address}/{name}"

    def names(self, name: str) -> list[str]:
        """What lies in a folder below; nothing where there is none."""
        path = self._path(self.of(name))
        if not self._files.exists(path):
            return []
        return [str(each.getPath().getName()) for each in self._files.listStatus(path)]

    def read(self, name: str) -> str | None:
        """None where there is no such file."""
        from py4j.protocol import Py4JJavaError

        try:
            stream = self._files.open(self._path(self.of(name)))
        except Py4JJavaError as error:
            if "FileNotFoundException" in str(error):
                return None
            raise
        try:
            return bytes(stream.readAllBytes()).decode("utf-8")
        finally:
            stream.close()

    def write_new(self, name: str, text: str) -> None:
        """Whole, or not at all; Fenced where somebody else has written it."""
        from py4j.protocol import Py4JJavaError

        path = self._path(self.of(name))
        manager = self._managers.create(path.getParent(), self._conf)
        if not manager.exists(path.getParent()):
            manager.mkdirs(path.getParent())
        if manager.exists(path):
            raise self._taken(name)
        stream = manager.createAtomic(path, False)
        try:
            stream.write(bytearray(text.encode("utf-8")))
            stream.close()
        except Py4JJavaError as error:
            stream.cancel()
            if "FileAlreadyExists" in str(error):
                raise self._taken(name) from error
            raise

    def remove(self, name: str) -> None:
        """Be it a file or a folder; where there is none, nothing happens."""
        self._files.delete(self._path(self.of(name)), True)

    def _taken(self, name: str) -> Fenced:
        return Fenced(
            f"{self.of(name)} is there already: another driver follows this view",
            hint="let one of them run; this one goes on from what is written when the other has ended",
        )
