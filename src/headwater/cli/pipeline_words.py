"""What `views`, `wait`, `verify`, `rebuild` and `rows` are told alike: files, or the project in this folder.

Without PATH the project's headwater.toml says where its pipelines, its log and its views are; an option
on the command line goes before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    asked_master: str | None = None
    """The Spark that is to do it; None: any."""
    own_settings: bool = False
    """Whether it is to be set otherwise than the one that runs."""


def understood(
    paths: Sequence[Path] | None,
    to: Sequence[str],
    bootstrap: str = DEFAULT_BOOTSTRAP,
    checkpoints: str = DEFAULT_CHECKPOINTS,
    master: str = DEFAULT_MASTER,
    conf: Sequence[str] = (),
) -> Given:
    targets = assigned(to, "--to", "order_search=sqlite:shop.db")
    settings = with_secrets(assigned(conf, "--conf", "spark.executor.memory=2g"))
    asked_master = None if master == DEFAULT_MASTER else master
    if paths:
        given = Given(tuple(paths), bootstrap, checkpoints, master, settings, targets)
        return replace(given, asked_master=asked_master, own_settings=bool(settings))
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
        asked_master,
        bool(settings),
    )


def assigned(words: Sequence[str], option: str, example: str) -> dict[str, str]:
    try:
        return parse_assignments(words)
    except ValueError as error:
        raise typer.BadParameter(f"{error}, for example {option} {example}") from None


def ask_running(
    given: Given,
    order: Order,
    kind: str,
    view: str,
    who: Audience,
    *,
    or_start: bool = True,
    **words: object,
) -> object:
    """What the application that runs has to say in the end; None: none does, and Spark is to be started.

    `who` hears what it says on the way. `or_start`: whether that will be done then.
    """
    if given.own_settings:
        return None
    from headwater.pipelines import control

    master = given.asked_master
    wanted = control.request(order, kind, view, given.targets, master=master, **words)
    found = control.ask(order.checkpoints, wanted, who)
    if found is None and or_start:
        who.say("no running application does it: starting Spark, which takes a while")
    return found


def order_of(given: Given) -> Order:
    """As an application of Spark is told it."""
    from headwater.cli.registry_words import settle_registry
    from headwater.pipelines.application import Order

    settle_registry()
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
