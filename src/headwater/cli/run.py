"""`headwater run`: every query of the given pipeline files, in one Spark application, always on."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from headwater.cli.admin import bootstrap_option
from headwater.cli.pipeline_words import DEFAULT_CHECKPOINTS, assigned
from headwater.cli.properties import read_settings, with_secrets

if TYPE_CHECKING:
    from headwater.pipelines.context import Wanted

LOOK_S = 0.05


def add_to(app: typer.Typer) -> None:
    app.command("run")(run)


def _checked(master: str) -> str:
    from headwater.project import spark_section

    wrong = spark_section.complaint(master)
    if wrong is not None:
        raise typer.BadParameter(f"{master} {wrong}")
    return master


_MASTER = typer.Option(
    "local[*]",
    "--master",
    envvar="HEADWATER_MASTER",
    callback=_checked,
    help="Where Spark runs: local[N], spark://…",
)


_BATCH_BYTES_MAX = typer.Option(
    1 << 30, "--batch-bytes-max", min=1, help="How many bytes a batch takes, about."
)
_CONTROL = typer.Option(
    None,
    "--control",
    metavar="DIR",
    help="Where headwater up keeps what people want of its parts: views are paused from there.",
)


def run(
    paths: list[Path] = typer.Argument(
        ..., metavar="PATH", help="Pipeline files, or folders of them."
    ),
    bootstrap: str = bootstrap_option(),
    master: str = _MASTER,
    remote: str | None = typer.Option(
        None, "--remote", metavar="sc://…", help="A Spark Connect server, instead of a master."
    ),
    checkpoints: str = typer.Option(
        DEFAULT_CHECKPOINTS,
        "--checkpoints",
        metavar="DIR",
        help="Where queries remember how far they are; shared storage, for a cluster.",
    ),
    once: bool = typer.Option(False, "--once", help="Bring every view up to date, then leave."),
    to: list[str] = typer.Option(
        [], "--to", metavar="VIEW=TARGET", help="Where a view lives, instead of what its file says."
    ),
    wait_for_topics: bool = typer.Option(
        False, "--wait-for-topics", help="Wait for topics that are not there yet."
    ),
    batch_records_max: int = typer.Option(
        1_000_000, "--batch-records-max", min=1, help="How many records a batch of a query takes."
    ),
    batch_bytes_max: int = _BATCH_BYTES_MAX,
    conf: list[str] = typer.Option([], "--conf", metavar="NAME=VALUE", help="A setting of Spark."),
    control: Path | None = _CONTROL,
) -> int:
    """Run the queries that pipeline files declare, until told to stop.

    Each query has its own checkpoint and shows as the consumer group headwater-NAME; what it did is
    told in the topic __headwater_progress. A query that fails is tried again while the others go on.
    SIGTERM or Ctrl-C stops them, each after the batch at hand.

    Example: headwater run pipelines/ --once
    """
    from headwater.pipelines import launch

    settings = with_secrets(assigned(conf, "--conf", "spark.executor.memory=2g"))
    targets = assigned(to, "--to", "orders=sqlite:shop.db")
    with _beside_log(bootstrap, control):
        if remote is None:
            launch.begin(paths, master, checkpoints, settings)
        from headwater.pipelines import application, control_server
    order = application.Order(
        paths=tuple(paths),
        bootstrap=bootstrap,
        checkpoints=checkpoints,
        master=master,
        remote=remote,
        once=once,
        client=_client_config(),
        settings=settings,
        targets=targets,
        wait_for_topics=wait_for_topics,
        batch_records_max=batch_records_max,
        batch_bytes_max=batch_bytes_max,
        wanted=_wanted_in(control),
    )
    return application.run(order, _say, control_server.requests)


def _expect_log(bootstrap: str) -> None:
    """Say at once that no broker answers, and what the client's settings lack."""
    from headwater.cli.admin import admin

    with admin(bootstrap):
        pass


@contextmanager
def _beside_log(bootstrap: str, folder: Path | None) -> Iterator[None]:
    """What is done inside needs no log: it goes on while the project's own one starts. Waited for by the
    supervisor's record, as another may be at its address; where none is to come, it is asked for first."""
    from headwater.project import record

    is_to_come = folder is not None and record.log_is_to_come(folder)
    if not is_to_come:
        _expect_log(bootstrap)
    yield
    while folder is not None and record.log_is_to_come(folder):
        time.sleep(LOOK_S)
    if is_to_come:
        _expect_log(bootstrap)


def _wanted_in(folder: Path | None) -> Callable[[str], Wanted]:
    from headwater.pipelines.context import Wanted
    from headwater.project.control import VIEW, Watched

    if folder is None:
        return lambda _: Wanted()
    watched = Watched(folder)

    def wanted(view: str) -> Wanted:
        now = watched.look()
        paused, restarted = now.paused.get(VIEW + view), now.restarts.get(VIEW + view)
        return Wanted(paused.by if paused else None, restarted.count if restarted else 0)

    return wanted


def _client_config() -> dict[str, str]:
    """How to reach a secured broker, as for every other command; the registry stands in the environment."""
    from headwater.cli.registry_words import settle_registry

    settle_registry()
    path = os.environ.get("HEADWATER_CLIENT_CONFIG")
    return read_settings(Path(path)) if path else {}


def _say(sentence: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {sentence}", file=sys.stderr, flush=True)
