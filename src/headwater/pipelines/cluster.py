"""What is different on a cluster: executors are other machines, and see a folder of the driver's or do not.

Asked while views are built, before any query starts, by whoever would have tasks leave something in a
folder: stores that stage in files, files that Spark writes, state. Each folder is tried, by tasks that read
what the driver wrote there and write themselves; not guessed from its name.

Where the state of a view over tables is follows from that. On one machine it is a file below the checkpoint,
and changes are in the view in a fraction of a second; elsewhere executors keep it, so that a driver which is
lost goes on on another machine. What a file of one machine's has is brought there before the first batch.

    master              checkpoint                  state
    local[…]            a local folder              the driver's; shared if a setting or what is there says so
    local[…]            hdfs://…, s3a://…, dbfs:/…  shared
    spark://…, yarn, …  either of them              shared; a folder that executors do not see is refused
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.local_path import local_path
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError, brief
from headwater.views.batch_name import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARED_CHECKPOINTS = (
    "give --checkpoints (checkpoints in [spark]) a folder that all machines see, or an address such as "
    "hdfs://… or s3a://…"
)
SETTING = "spark.headwater.tableState"
AUTO, SHARED = "auto", "shared"
TABLES = "tables"
"""Below the checkpoint: the state of tables, wherever it is kept."""
TASKS_LEAST = 4
_SEEN: set[tuple[str, Path]] = set()
"""Application and folder: a query that is started again need not ask again."""


def is_cluster(spark: SparkSession) -> bool:
    """Whether tasks may run on other machines than this one."""
    if is_connect(spark):
        return False  # the server's affair: the driver is there, too
    master = str(spark.sparkContext.master)
    return not (master == "local" or master.startswith("local["))


def make_folder(folder: Path, master: str | None) -> None:
    """For checkpoints, which hold the rows of tables: its owner's alone, unless executors may be others."""
    is_local = (master or "local").startswith("local")
    folder.mkdir(mode=0o700 if is_local else 0o777, parents=True, exist_ok=True)


def must_be_seen(spark: SparkSession, folder: Path, what: str, hint: str) -> None:
    """PipelineError where executors do not see this folder of the driver's, or cannot write there.

    `what` begins the sentence, as in "the view 'x' stages its rows in".
    """
    if not is_cluster(spark):
        return
    known = (str(spark.sparkContext.applicationId), folder)
    if known in _SEEN:
        return
    folder.mkdir(parents=True, exist_ok=True)
    token = folder / f".headwater-{uuid.uuid4().hex}"
    token.write_text(token.name, encoding="utf-8")
    try:
        blind = sorted({said for said in _asked(spark, token) if said})
    finally:
        for left in folder.glob(f"{token.name}*"):
            left.unlink(missing_ok=True)
    if blind:
        raise PipelineError(f"{what} {folder}, and {blind[0]}", hint=hint)
    _SEEN.add(known)


def _asked(spark: SparkSession, token: Path) -> list[str]:
    from py4j.protocol import Py4JJavaError

    context = spark.sparkContext
    tasks = max(TASKS_LEAST, 2 * context.defaultParallelism)
    try:
        found: list[str] = (
            context.parallelize(range(tasks), tasks)
            .mapPartitions(partial(look, str(token)))
            .collect()
        )
    except Py4JJavaError as error:
        if "ModuleNotFoundError" not in str(error):
            raise
        raise PipelineError(
            f"Spark's executors cannot import what the driver has: {brief(error)}",
            hint="install headwater there, and let PYSPARK_PYTHON name that Python, as in --conf "
            "spark.pyspark.python=/opt/venv/bin/python",
        ) from error
    return found


def look(token: str, numbers: Iterator[int]) -> Iterator[str]:
    """In a task: what is wrong with the folder there, or nothing."""
    import platform

    path = Path(token)
    for number in numbers:
        try:
            if path.read_text(encoding="utf-8") != path.name:
                raise FileNotFoundError(token)
            path.with_name(f"{path.name}.{number}").write_text("", encoding="utf-8")
        except FileNotFoundError:
            yield f"the executor on {platform.node()} does not see what the driver writes there"
        except OSError as error:
            yield f"the executor on {platform.node()} cannot write there: {error.strerror}"
        else:
            yield ""


# ---- the state of views over tables -------------------------------------------------------------------


def keeps_shared_state(view: View, context: Context) -> bool:
    """Whether this view's state is on shared storage; PipelineError where it would have to be, and cannot."""
    from headwater.views.tables.shared.upkeep import has_manifests

    chosen = context.spark.conf.get(SETTING, AUTO)
    if chosen not in (AUTO, SHARED):
        raise PipelineError(f"{SETTING} is {chosen!r}", hint=f"let it be {SHARED}, or leave it out")
    if context.checkpoint is None:
        return False
    place = local_path(context.checkpoint)
    if place is not None and not is_cluster(context.spark):
        if chosen == AUTO and not has_manifests(place / TABLES):
            return False
    if place is not None:
        must_be_seen(
            context.spark,
            place,
            f"the view {view.name!r} ({view.place}) is over tables, whose state executors keep in",
            SHARED_CHECKPOINTS,
        )
    return True


def state_address(view: View, context: Context) -> str:
    """Of the shared state, as Spark takes it."""
    assert context.checkpoint is not None, view.name
    place = local_path(context.checkpoint)
    return f"{context.checkpoint if place is None else f'file://{place}'}/{TABLES}"


def state_folder(view: View, context: Context) -> Path:
    """Of the driver's checkpoint."""
    place = None if context.checkpoint is None else local_path(context.checkpoint)
    if place is None:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) is over tables, and nobody says where its checkpoint is",
            hint="run it with headwater run",
        )
    return place
