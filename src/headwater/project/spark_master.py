"""Where Spark may be told to run (`master` in [spark], `--master`): its forms, and the nearest to a mistake.

Called by the reader of headwater.toml, so that `doctor` finds what would otherwise stop Spark's start.
"""

from __future__ import annotations

import re

from headwater.errors import nearest

FORMS = ("local", "local[2]", "local[*]", "spark://HOST:7077", "yarn", "k8s://https://HOST:443")
_MASTER = re.compile(
    r"local|local\[(?:\d+|\*)(?:\s*,\s*\d+)?\]|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://[^\s,:]+:\d+(?:,[^\s,:]+:\d+)*|yarn|k8s://\S+"
)

_REMOTE = re.compile(r"sc://(?:\[[^\]/]+\]|[^\s:/;]+)(?::\d+)?(?:/[^\s]*)?")


def complaint(value: object) -> str | None:
    """What is wrong with it, as the end of a sentence; None where Spark would take it."""
    if not isinstance(value, str) or not value:
        return "is no text in quotes"
    if _MASTER.fullmatch(value) and value != "local[0]":
        return None
    return f"is no place where Spark runs{nearest(value, FORMS)}"


def remote_complaint(value: object) -> str | None:
    """What is wrong with the address of a Spark Connect server; None: nothing."""
    good = isinstance(value, str) and _REMOTE.fullmatch(value) is not None
    return None if good else 'is no Spark Connect server, as in "sc://spark:15002"'
