"""Every operator, source, sink and target runs through the table of values: what has no entry here, fails.

Whoever adds one adds a line that says which test of this folder tries it; where nothing can hurt it, why.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path

from headwater import processing
from headwater.pipelines import vocabulary
from headwater.processing import joins, patterns, percolator, request_reply
from headwater.spark.source.options import FORMATS
from headwater.views.targets import registry
from headwater.views.targets.contract import Kind
from tests.values.places import OTHER_NAMES, PLACES

HERE = Path(__file__).parent
WORDS = "a name, with nothing that a value could pass through"

OPERATORS = {
    "aggregate": "test_windows",
    "count": "test_windows",
    "sum": "test_windows",
    "avg": "test_windows",
    "mean": "test_windows",
    "min": "test_windows",
    "max": "test_windows",
    "event_stream": "test_windows",
    "tumbling": "test_windows",
    "hopping": "test_windows",
    "session_window": "test_windows",
    "sliding": "test_operators",
    "approx_count_distinct": "test_operators",
    "approx_percentile": "test_operators",
    "corrected": "test_written",
    "corrected_time": "test_operators",
    "rate": "test_operators",
    "Window": WORDS,
    "Distinct": "test_operators",
    "Frequencies": "test_operators",
    "Members": "test_operators",
    "Percentiles": "test_operators",
    "Sets": "test_operators",
    "Top": "test_operators",
    "joins.as_of": "test_operators",
    "joins.enrich": "test_operators",
    "joins.within": "test_operators",
    "joins.changes": "test_operators",
    "joins.BadJoin": WORDS,
    "patterns.match": "test_operators",
    "patterns.NoResult": WORDS,
    "patterns.OtherPattern": WORDS,
    "patterns.PatternError": WORDS,
    "patterns.TooManyWays": WORDS,
    "percolator.match": "test_operators",
    "percolator.queries": "test_operators",
    "percolator.BadQuery": WORDS,
    "request_reply.requests": "test_operators",
    "request_reply.REPLIES": "test_operators",
    "request_reply.Asker": "test_operators",
    "request_reply.ask": "test_operators",
    "request_reply.Answer": WORDS,
    "request_reply.NotAnswered": WORDS,
}
SOURCES = {
    "bytes": "test_records",
    "json": "test_records",
    "avro": "test_avro",
    "confluent-avro": "test_avro",
    "stream": "test_windows",
    "table": "test_records",
}
TARGETS = {
    "topic": "test_records",
    "parquet": "test_written",
    "memory": "test_written",
    "console": "test_written",
    "function": "test_written",
    "replies": "test_operators",
    **dict.fromkeys((*PLACES, *OTHER_NAMES), "test_targets"),
}


def said(entries: dict[str, str], names: Iterable[str]) -> list[str]:
    """What has no entry; and entries whose test is not there, or does not name it."""
    missing = [name for name in names if name not in entries]
    for name, test in entries.items():
        if test == WORDS:
            continue
        path = HERE / f"{test}.py"
        if not path.exists():
            missing.append(f"{name}: there is no {test}")
    return missing


def test_every_operator_is_tried() -> None:
    inner = {
        "joins": joins,
        "patterns": patterns,
        "percolator": percolator,
        "request_reply": request_reply,
    }
    names = [name for name in processing.__all__ if name not in inner]
    for module, found in inner.items():
        names += [f"{module}.{name}" for name in found.__all__]
    folders = {path.parent.name for path in Path(processing.__file__).parent.glob("*/__init__.py")}
    assert folders == {*inner, "event_time"}, "a package of operators is new"
    assert said(OPERATORS, names) == []
    texts = {test: (HERE / f"{test}.py").read_text() for test in {*OPERATORS.values()} - {WORDS}}
    unnamed = [
        name
        for name, test in OPERATORS.items()
        if test != WORDS and not re.search(rf"\b{name.rpartition('.')[2]}\b", texts[test])
    ]
    assert unnamed == [], "a test that is said to try them does not name them"


def test_every_source_is_tried() -> None:
    words = {name for name in vocabulary.__dict__ if inspect.isfunction(vocabulary.__dict__[name])}
    public = {name for name in words if not name.startswith("_")} - {"view", "current"}
    assert said(SOURCES, ["bytes", *FORMATS, *public]) == []


def test_every_target_is_tried() -> None:
    names = [*registry.schemes(), "function"]
    assert said(TARGETS, names) == []
    assert {kind.value for kind in Kind} == {"append", "upsert", "history"}, "a kind is new"
