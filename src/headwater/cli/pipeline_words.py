"""What `views`, `wait`, `verify` and `rebuild` are told alike: files, or the project in this folder.

Without PATH the project's headwater.toml says where its pipelines, its log and its views are; an option
on the command line goes before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headwater.cli.admin import DEFAULT_BOOTSTRAP
from headwater.cli.properties import client_config, parse_assignments, with_secrets

if TYPE_CHECKING:
    from headwater.pipelines.application import Order
    from headwater.pipelines.control import Audience

DEFAULT_CHECKPOINTS = "data/checkpoints"
DEFAULT_MASTER = "local[*]"


def paths_argument() -> Any:
    return typer.Argument(
        None,
        metavar="[PATH]...",
        show_default=False,
        help="Pipeline files, or folders of them; none: those of headwater.toml.",
    )


def to_option() -> Any:
    return typer.Option(
        [], "--to", metavar="NAME=TARGET", help="Where a view lives, if not where its file says."
    )


def checkpoints_option() -> Any:
    return typer.Option(
        DEFAULT_CHECKPOINTS,
        "--checkpoints",
        metavar="DIR",
        help="Where queries remember how far they are, as for headwater run.",
    )


def master_option() -> Any:
    return typer.Option(
        DEFAULT_MASTER,
        "--master",
        envvar="HEADWATER_MASTER",
        help="Where Spark runs: local[N], spark://…",
    )


def conf_option() -> Any:
    return typer.Option([], "--conf", metavar="NAME=VALUE", help="A setting of Spark.")


@dataclass(frozen=True)
class Given:
    """The words, with what the project says where they say nothing."""

    paths: tuple[Path, ...]
    bootstrap: str
    checkpoints: str = DEFAULT_CHECKPOINTS
    master: str = DEFAULT_MASTER
    settings: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    batch_records_max: int = 1_000_000
    batch_bytes_max: int = 1 << 30
    any_spark: bool = True
    """Whether it is not said which Spark is to do it."""


def understood(
    paths: Sequence[Path] | None,
    to: Sequence[str],
    bootstrap: str = DEFAULT_BOOTSTRAP,
    checkpoints: str = DEFAULT_CHECKPOINTS,
    master: str = DEFAULT_MASTER,
    conf: Sequence[str] = (),
) -> Given:
    targets = _assignments(to, "--to", "order_search=sqlite:shop.db")
    settings = with_secrets(_assignments(conf, "--conf", "spark.executor.memory=2g"))
    any_spark = master == DEFAULT_MASTER and not settings
    if paths:
        return Given(
            tuple(paths), bootstrap, checkpoints, master, settings, targets, any_spark=any_spark
        )
    from headwater.project.file import FILE, load

    project = load(Path(FILE))
    declared = {name: str(view["to"]) for name, view in project.views.items()}
    return Given(
        tuple(project.folder / path for path in project.pipelines),
        project.address if bootstrap == DEFAULT_BOOTSTRAP else bootstrap,
        project.checkpoints if checkpoints == DEFAULT_CHECKPOINTS else checkpoints,
        project.master if master == DEFAULT_MASTER else master,
        {**project.conf, **settings},
        {**declared, **targets},
        project.batch_records_max,
        project.batch_bytes_max,
        any_spark,
    )


def _assignments(words: Sequence[str], option: str, example: str) -> dict[str, str]:
    try:
        return parse_assignments(words)
    except ValueError as error:
        raise typer.BadParameter(f"{error}, for example {option} {example}") from None


def ask_running(
    given: Given, order: Order, kind: str, view: str, who: Audience, **words: object
) -> object:
    """What the application that runs has to say in the end; None: none does, and Spark is to be started.

    `who` hears what it says on the way.
    """
    if not given.any_spark:
        return None
    from headwater.pipelines import control

    wanted = control.request(order, kind, view, given.targets, **words)
    found = control.ask(order.checkpoints, wanted, who)
    if found is None:
        who.say("no running application does it: starting Spark, which takes a while")
    return found


def order_of(given: Given) -> Order:
    """As an application of Spark is told it."""
    from headwater.pipelines.application import Order

    return Order(
        paths=given.paths,
        bootstrap=given.bootstrap,
        checkpoints=given.checkpoints,
        master=given.master,
        client=client_config(),
        settings=given.settings,
        batch_records_max=given.batch_records_max,
        batch_bytes_max=given.batch_bytes_max,
    )
