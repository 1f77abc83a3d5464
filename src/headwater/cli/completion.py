"""What the shell may complete: topics and groups from the log, captures from the project's file.

Called by typer when Tab is pressed. Whatever goes wrong, nothing is offered and nothing is printed; a
broker that is away costs the fraction of a second that it takes to notice.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

ASK_S = 1.0
CONNECT_S = 0.3
INSTRUCTION = "_HEADWATER_COMPLETE"


def topic_names(context: typer.Context, incomplete: str) -> list[str]:
    def ask(client: Any) -> list[str]:
        return list(client.list_topics(timeout=ASK_S).topics)

    return _from_the_log(context, incomplete, ask)


def group_names(context: typer.Context, incomplete: str) -> list[str]:
    def ask(client: Any) -> list[str]:
        answer = client.list_consumer_groups(request_timeout=ASK_S).result()
        return [each.group_id for each in answer.valid]

    return _from_the_log(context, incomplete, ask)


def capture_names(incomplete: str) -> list[str]:
    try:
        import tomllib

        document = tomllib.loads(Path("headwater.toml").read_text(encoding="utf-8"))
        return _offered(list(document.get("capture", {})), incomplete)
    except Exception:  # the shell's line is no place for a complaint
        return []


def completed_words() -> list[str]:
    """The command that is being completed, while the shell asks (bash, then the others); else none."""
    if INSTRUCTION not in os.environ:
        return []
    said = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return said.split()[1:2]


def _from_the_log(
    context: typer.Context, incomplete: str, ask: Callable[[Any], list[str]]
) -> list[str]:
    try:
        from headwater.cli.admin import DEFAULT_BOOTSTRAP
        from headwater.cli.properties import client_config
        from headwater.client.librdkafka import AdminClient
        from headwater.project.hello import Answer, hello

        bootstrap = str(context.params.get("bootstrap") or DEFAULT_BOOTSTRAP)
        own = client_config()
        if not own and hello(bootstrap.split(",")[0], CONNECT_S) is not Answer.BROKER:
            return []
        client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **own})
        return _offered(ask(client), incomplete)
    except Exception:  # as above
        return []


def _offered(names: list[str], incomplete: str) -> list[str]:
    """The log's own topics only to whoever begins to spell one."""
    fitting = sorted(name for name in names if name.startswith(incomplete))
    return fitting if incomplete.startswith("_") else [n for n in fitting if n[:2] != "__"]
