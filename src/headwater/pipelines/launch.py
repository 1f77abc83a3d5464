"""Java is started first: it takes its time, and all that the driver needs is imported meanwhile.

Called by `headwater run`, before it imports the application, which makes the session (`session_for`) with
what was begun here. Mistakes in the files come before both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.local_path import local_path
from headwater.pipelines.cluster import make_folder
from headwater.pipelines.loader import read
from headwater.pipelines.maven import connector_for
from headwater.pipelines.session import launch, require_pyspark, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.pipelines.application import Order
    from headwater.pipelines.maven import Connector


def begin(
    paths: Sequence[Path], master: str | None, checkpoints: str, settings: Mapping[str, str]
) -> None:
    """Start Java for the pipelines of these files. Raises PipelineError where a file is no Python."""
    require_pyspark()
    jars = connector_for(read(paths), None).jars
    launch(master, settings=settings, jars=jars, log_file=_log_file(checkpoints, master))


def session_for(order: Order, connector: Connector) -> SparkSession:
    return session(
        order.master,
        remote=order.remote,
        name="headwater run",
        settings=order.settings,
        jars=connector.jars,
        log_file=None if order.remote else _log_file(order.checkpoints, order.master),
    )


def _log_file(checkpoints: str, master: str | None) -> Path | None:
    folder = local_path(checkpoints)
    if folder is None:
        return None
    make_folder(folder, master)
    return folder / "spark.log"
