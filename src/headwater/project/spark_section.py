"""[spark] of headwater.toml: where Spark runs, where it keeps checkpoints, its own settings; pure.

Called by the reader of the file and by `headwater run --master`, so that `doctor` finds what would otherwise
stop Spark's start, or what Spark would pass over without a word. Spark has some thousand settings: what each
must be is told by how its name ends, as far as Spark keeps to that, and by name for the few that people set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from zoneinfo import ZoneInfo

from headwater.errors import nearest
from headwater.secrets import names_one
from headwater.value_forms import text_complaint

_NO_STORAGE = ("http", "https", "s3", "sqlite", "postgresql", "mysql", "redis", "spark", "sc")
"""What people write in place of a storage that Spark can keep checkpoints on."""
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


def storage_complaint(value: object) -> str | None:
    """What is wrong with the place of checkpoints."""
    if (wrong := text_complaint(value)) is not None:
        return wrong
    said = 'is no storage of Spark\'s, as in "s3a://…" or "hdfs://…"'
    return said if str(value).partition(":")[0].lower() in _NO_STORAGE else None


PREFIX = "spark."
_SIZE = re.compile(r"-?\d+(?:b|[kmgtp]b?)?", re.IGNORECASE)
_TIME = re.compile(r"-?\d+(?:us|ms|s|m|min|h|d)?", re.IGNORECASE)
_ELSEWHERE = {"spark.master": "[spark] master", "spark.remote": "[spark] remote"}
_WORDS = {
    "spark.scheduler.mode": ("FAIR", "FIFO"),
    "spark.submit.deployMode": ("client", "cluster"),
}


def conf_complaint(value: object) -> str | None:
    """What is wrong with the section, in words that follow `conf`; None: nothing."""
    if not isinstance(value, Mapping):
        return "is no table of names and values"
    for name, each in value.items():
        if not isinstance(each, str | int | float):
            return f"has {name} = {each!r}, which is no text, no number and neither true nor false"
        text = str(each).lower() if isinstance(each, bool) else str(each)
        if (wrong := _complaint(name, text)) is not None:
            return f"has {name}{wrong}"
    return None


def _complaint(name: str, text: str) -> str | None:
    if name in _ELSEWHERE:
        return f", and that is said by {_ELSEWHERE[name]}"
    if not name.startswith(PREFIX):
        return f": Spark passes over what does not begin with {PREFIX!r}"
    if names_one(text):
        return None  # known only where it runs
    for pattern, check, what in _FORMS:
        if pattern.search(name) and not check(text):
            return f" = {text!r}, which is {what}"
    if name in _WORDS and text.upper() not in map(str.upper, _WORDS[name]):
        return f" = {text!r}, which is none of {', '.join(_WORDS[name])}"
    return None


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text) < 2**31


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) <= 65535


def _is_zone(text: str) -> bool:
    if re.fullmatch(r"[+-]\d{1,2}:\d\d(?::\d\d)?|Z|UTC|GMT", text):
        return True
    try:
        ZoneInfo(text)
    except (OSError, ValueError, KeyError):
        return False
    return True


_Form = tuple[re.Pattern[str], Callable[[str], object], str]
_FORMS: tuple[_Form, ...] = (
    (re.compile(r"\.enabled$"), ("true", "false").__contains__, "neither true nor false"),
    (
        re.compile(r"\.(?:memory|memoryOverhead|maxResultSize|pyspark\.memory|offHeap\.size)$"),
        _SIZE.fullmatch,
        'no size, as in "2g"',
    ),
    (
        re.compile(r"\.(?:cores|cores\.max|task\.cpus|shuffle\.partitions|default\.parallelism)$"),
        _is_count,
        "no number from 1 on",
    ),
    (re.compile(r"\.port$|Port$"), _is_port, "no port from 0 to 65535"),
    (
        re.compile(r"^spark\.(?:network|rpc\.ask)\.?[tT]imeout$"),
        _TIME.fullmatch,
        'no time, as in "120s"',
    ),
    (re.compile(r"heartbeatInterval$"), _TIME.fullmatch, 'no time, as in "10s"'),
    (
        re.compile(r"^spark\.sql\.session\.timeZone$"),
        _is_zone,
        'no time zone, as in "Europe/Berlin"',
    ),
)
