"""The hardening list of docs/security.md, looked at one by one: `headwater doctor --production`.

Nothing is started and nobody is asked: what counts is what stands in headwater.toml, and the modes of files.
Each line that fails says what to write where. A log that somebody else runs is theirs to harden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir
from functools import partial

from headwater.project.doctor import guarded
from headwater.project.file import Project
from headwater.project.hardening import broker, files, pages
from headwater.project.values import Finding

CHECKS: Mapping[str, Callable[[Project], Finding]] = {
    "broker: TLS and login": broker.broker_tls,
    "broker: authorizer": broker.authorizer,
    "broker: durability": broker.durability,
    "broker: free space": broker.free_space,
    "broker: audit": broker.audit,
    "edges: TLS": pages.edges_tls,
    "edges: tokens": pages.edges_tokens,
    "edges: limits": pages.edges_limits,
    "edges: webhooks": pages.webhooks,
    "schemas: TLS": pages.schemas_tls,
    "schemas: tokens": pages.schemas_tokens,
    "console: TLS": pages.console_tls,
    "console: login": pages.console_login,
    "secrets: not in the file": files.inline,
    "secrets: file modes": files.modes,
    "data: file modes": files.data,
    "data: master key": files.sealing,
}
"""Each line of the list; docs/security.md says the same, in this order."""


def examine(project: Project) -> Iterator[Finding]:
    """Every line of the list, in its order."""
    with chdir(project.folder):
        for name, check in CHECKS.items():
            yield from guarded(name, partial(check, project))
