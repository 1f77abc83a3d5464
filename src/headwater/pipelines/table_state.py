"""Where the state of a view over tables is: in a file of the driver's, or on storage that a cluster shares.

Asked by `table_views` while a view is built. On one machine it is a file below the checkpoint, and changes
are in the view in a fraction of a second. Where tasks run on other machines, or the checkpoint is on shared
storage, it is shared: computed and held by executors, so that a driver which is lost goes on elsewhere. What
a file of one machine's has is brought there before the first batch.

    master              checkpoint                  state
    local[…]            a local folder              the driver's; shared if a setting or what is there says so
    local[…]            hdfs://…, s3a://…, dbfs:/…  shared
    spark://…, yarn, …  either of them              shared; a folder that executors do not see is refused
"""

from __future__ import annotations

from pathlib import Path

from headwater.local_path import local_path
from headwater.pipelines.cluster import SHARED_CHECKPOINTS, is_cluster, must_be_seen
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.stores import TRANSACTIONS

SETTING = "spark.headwater.tableState"
AUTO, SHARED = "auto", "shared"
FOLDER = "tables"
"""Below the checkpoint, for both."""


def is_shared(view: View, context: Context) -> bool:
    """Whether this view's state is on shared storage; PipelineError where it would have to be, and cannot."""
    chosen = context.spark.conf.get(SETTING, AUTO)
    if chosen not in (AUTO, SHARED):
        raise PipelineError(f"{SETTING} is {chosen!r}", hint=f"let it be {SHARED}, or leave it out")
    if context.checkpoint is None:
        return False
    place = local_path(context.checkpoint)
    if place is not None and not is_cluster(context.spark):
        if chosen == AUTO and not (place / FOLDER / "manifests").is_dir():
            return False
    if place is not None:
        must_be_seen(
            context.spark,
            place,
            f"the view {view.name!r} ({view.place}) is over tables, whose state executors keep in",
            SHARED_CHECKPOINTS,
        )
    if TRANSACTIONS in view.options:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) asks for whole transactions, which are held back on "
            "the driver, and its state is on shared storage",
            hint="leave out the option transactions, or run it with --master 'local[*]' and a local folder "
            "of checkpoints",
        )
    return True


def address(view: View, context: Context) -> str:
    """Of the shared state, as Spark takes it."""
    assert context.checkpoint is not None, view.name
    place = local_path(context.checkpoint)
    return f"{context.checkpoint if place is None else f'file://{place}'}/{FOLDER}"


def folder(view: View, context: Context) -> Path:
    """Of the driver's checkpoint."""
    place = None if context.checkpoint is None else local_path(context.checkpoint)
    if place is None:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) is over tables, and nobody says where its checkpoint is",
            hint="run it with headwater run",
        )
    return place
