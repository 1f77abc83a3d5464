"""The processes that a project consists of: a name, a command, and its place in the order.

Made from a checked headwater.toml for the supervisor. Each is an ordinary command of headwater that a
person could start by hand, so that what `headwater up` runs can also be run alone.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.project import packages, record
from headwater.project.file import Project
from headwater.project.mistakes import mistaken
from headwater.schemas.address import LISTEN as SCHEMAS_LISTEN
from headwater.schemas.address import is_served, registry_of
from headwater.secrets import Environment

if TYPE_CHECKING:
    from headwater.broker.security.listeners import Listener

BROKER, PIPELINES, CONSOLE, EDGES = record.LOG, "pipelines", "console", "edges"
SCHEMAS = "schemas"
CONSOLE_LISTEN = "127.0.0.1:8765"
EDGES_LISTEN = "127.0.0.1:8086"
_SERVICES = {
    SCHEMAS: (("schemas", "serve"), SCHEMAS_LISTEN, 2, packages.SCHEMAS),
    EDGES: (("edges",), EDGES_LISTEN, 1, packages.EDGES),
    CONSOLE: (("console",), CONSOLE_LISTEN, 0, packages.CONSOLE),
}
"""Command, address unless the file says another, place in the order of stopping, packages."""
_NOT_AMONG = (
    "`listeners` lacks {0}, which is `listen` of [log]: the project's own parts come in there"
)


@dataclass(frozen=True)
class Part:
    """One process."""

    name: str
    words: tuple[str, ...]
    """After `headwater`."""
    stops: int
    """Smaller numbers are stopped first: what writes to the log before what reads it, the log last."""
    answers_at: str | None = None
    """An address where a broker answers once the part is ready; None: ready when it runs."""
    page_at: str | None = None
    """An address where a web page answers once the part is ready. Such a part waits for nobody."""
    is_secure: bool = False
    """Whether that page is behind TLS; of a broker: whether it wants TLS or a login there."""
    data: str | None = None
    """Of a broker: the folder whose cluster has to be the one that answers."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Added to the supervisor's own: secrets, as everybody sees a process's words."""
    needs: packages.Needs = field(default_factory=dict)
    """What must be installed before it can start."""
    waits_for_log: bool = False
    """Whether it starts beside the log, and waits by itself until the record says that this runs."""

    @property
    def is_asked(self) -> bool:
        """Whether somebody has to answer before it counts as running."""
        return self.answers_at is not None or self.page_at is not None

    @property
    def address(self) -> str | None:
        """Where it will listen."""
        return self.answers_at or self.page_at

    @property
    def section(self) -> str:
        """Of headwater.toml, where its address stands."""
        return "log" if self.name == BROKER else self.name

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "headwater", *self.words]

    @property
    def log_name(self) -> str:
        return f"{self.name.replace(' ', '-')}.log"


def parts_of(project: Project) -> list[Part]:
    """In the order in which they start."""
    parts = [] if project.bootstrap else [_broker(project)]
    if project.schemas is not None and is_served(project.schemas):
        parts.append(_service(project, SCHEMAS, project.schemas))
    parts += [_capture(project, name) for name in project.captures]
    if project.pipelines:
        parts.append(_pipelines(project))
    if project.edges is not None:
        parts.append(_service(project, EDGES, project.edges))
    if project.console is not None:
        parts.append(_service(project, CONSOLE, project.console))
    return parts


def _broker(project: Project) -> Part:
    words = ["broker", "--data", project.data]
    is_secure = False
    if "listeners" in project.settings:
        is_secure = _own_listener(project).protocol != "PLAINTEXT"
    else:
        words += ["--listen", project.listen]
    secrets = Environment()
    for name, value in project.settings.items():
        words += ["--set", secrets.setting(name, value)]
    return Part(
        BROKER,
        tuple(words),
        stops=3,
        answers_at=project.listen,
        is_secure=is_secure,
        data=project.data,
        environment=secrets,
    )


def _own_listener(project: Project) -> Listener:
    """The one by which the project's parts come in. Raises BadProject where there is none."""
    from headwater.broker.security.listeners import from_settings
    from headwater.broker.settings import Settings

    host, _, port = project.listen.rpartition(":")
    for each in from_settings(Settings(dict(project.settings))):
        if each.port == int(port) and each.host in (host.strip("[]"), "", "0.0.0.0", "::"):
            return each
    raise mistaken(project.path, [("log.settings", _NOT_AMONG.format(project.listen))])


def _capture(project: Project, name: str) -> Part:
    words = ("capture", "run", name, "--file", project.path.name, "--bootstrap", project.address)
    needs = packages.of_stores([project.captures[name].get("from")])
    return Part(f"capture {name}", words, stops=1, needs=needs)


def _pipelines(project: Project) -> Part:
    words = ["run", *project.pipelines, "--bootstrap", project.address]
    words += ["--checkpoints", project.checkpoints, "--wait-for-topics"]
    words += ["--control", str(record.FOLDER)]
    words += ["--remote", project.remote] if project.remote else ["--master", project.master]
    if project.batch_records_max != Project.batch_records_max:
        words += ["--batch-records-max", str(project.batch_records_max)]
    if project.batch_bytes_max != Project.batch_bytes_max:
        words += ["--batch-bytes-max", str(project.batch_bytes_max)]
    secrets = Environment()
    words += placed(project, secrets)
    if project.schemas is not None:
        # The pipelines' own name for it; a password in it stays out of what people see.
        secrets["HEADWATER_REGISTRY"] = secrets.address(registry_of(project.schemas))
    needs = {
        **packages.PIPELINES,
        **(packages.REMOTE if project.remote else {}),
        **packages.of_stores(view["to"] for view in project.views.values()),
    }
    return Part(
        PIPELINES, tuple(words), stops=2, environment=secrets, needs=needs, waits_for_log=True
    )


def placed(project: Project, secrets: Environment) -> list[str]:
    """What the file says of Spark and of where views live, for a command that runs them."""
    words: list[str] = []
    for name, value in project.conf.items():
        words += ["--conf", secrets.setting(name, value)]
    for name, view in project.views.items():
        words += ["--to", f"{name}={secrets.address(view['to'])}"]
    return words


def _service(project: Project, name: str, section: Mapping[str, object]) -> Part:
    # Its settings, a token among them, it reads from the file itself: words are seen by everybody.
    words, listen, stops, needs = _SERVICES[name]
    return Part(
        name,
        (*words, "--project", project.path.name),
        stops=stops,
        page_at=str(section.get("listen", listen)),
        environment={} if name == SCHEMAS else _others_registry(project),
        is_secure=bool(section.get("tls")),
        needs=needs,
    )


def _others_registry(project: Project) -> Mapping[str, str]:
    """For who reads `_schemas` of the log himself, unless the registry is somebody else's."""
    if project.schemas is None or is_served(project.schemas):
        return {}
    return {"HEADWATER_REGISTRY": registry_of(project.schemas)}
