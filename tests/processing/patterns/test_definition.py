"""The machine finds exactly what the definition says, on random patterns and random rows."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from headwater.processing.patterns.automaton import build
from headwater.processing.patterns.errors import PatternError
from headwater.processing.patterns.syntax import bound_variables, parse, variables
from tests.processing.patterns.machines import (
    CONDITIONS,
    ROW_CONDITIONS,
    WITHIN,
    Clocked,
    both,
    found,
    in_order,
    plan,
)
from tests.processing.patterns.reference import Found, Reference, Row

MEASURES = {
    "all": "collect_list(coalesce(x, -1))",
    "a": "collect_list(coalesce(A.x, -1))",
    "rows": "count(*)",
    "b": "count(B)",
    "c": "sum(C.x)",
    "first": "first(x)",
    "last": "x",
}

_quantifiers = st.sampled_from(
    [
        "",
        "",
        "",
        "?",
        "*",
        "+",
        "{2}",
        "{1,3}",
        "{2,}",
        "{,2}",
        "??",
        "*?",
        "+?",
        "{1,2}?",
        "{0,2}?",
    ]
)
_leaf = st.sampled_from(["A", "B", "C", "!A", "!B", "!(B | C)"])


def _quantified(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda part, quantifier: f"({part}){quantifier}", inner, _quantifiers)


_body = st.recursive(
    st.builds(lambda leaf, quantifier: leaf + quantifier, _leaf, _quantifiers),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(" ".join),
        st.lists(inner, min_size=2, max_size=3).map(" | ".join),
        _quantified(inner),
    ),
    max_leaves=5,
)
patterns = st.builds(lambda body, end: f"({body}){end}", _body, st.sampled_from(["", "", " $"]))
defines = st.dictionaries(
    st.sampled_from("ABC"),
    st.one_of(
        st.sampled_from(sorted(ROW_CONDITIONS)),
        st.sampled_from(sorted(CONDITIONS)),
        st.builds(
            lambda one, two: f"{one} and {two}",
            st.sampled_from(sorted(ROW_CONDITIONS)),
            st.sampled_from(sorted(CONDITIONS)),
        ),
    ),
)
rows = st.lists(
    st.builds(Row, st.integers(0, 25), st.sampled_from([0, 0, 1, 1, 2, 3, None])), max_size=9
)
skips = st.sampled_from(["past last row", "to next row", "to first A", "to last B"])


def expected(one: Found) -> tuple[object, ...]:
    path = [row for _, row in one.path]

    def of(variable: str) -> list[Row]:
        return [row for name, row in one.path if name == variable]

    xs = [-1 if row.x is None else row.x for row in path]
    cs = [row.x for row in of("C") if row.x is not None]
    return (
        path[0].time,
        path[-1].time,
        one.timed_out,
        xs,
        [-1 if row.x is None else row.x for row in of("A")],
        len(path),
        len(of("B")),
        sum(cs) if cs else None,
        path[0].x,
        path[-1].x,
    )


def usable(pattern: str, define: dict[str, str], skip: str) -> tuple[dict[str, str], str] | None:
    """The same words without variables that the pattern lacks; None where the pattern is refused."""
    tree = parse(pattern)
    try:
        build(tree)
    except PatternError:
        return None
    names = set(variables(tree))
    if skip[-1] in "AB" and skip[-1] not in bound_variables(tree):
        skip = "past last row"
    kept = {}
    for name, sql in define.items():
        asked = {each for each in "ABC" if f"{each}." in sql or f"({each})" in sql}
        if name in names and asked <= names:
            kept[name] = sql
    return kept, skip


def reference(pattern: str, define: dict[str, str], skip: str, given: list[Row]) -> list[Found]:
    conditions = {name: both(sql) for name, sql in define.items()}
    judge = Reference(parse(pattern), conditions, 10, skip, timeouts=True)
    return judge.matches(in_order(given))


def measures_of(pattern: str) -> dict[str, str]:
    """Those whose variables the pattern has."""
    lacking = set("ABC") - set(variables(parse(pattern)))
    return {
        name: text
        for name, text in MEASURES.items()
        if not any(f"{each}." in text or f"({each})" in text for each in lacking)
    }


@given(patterns, defines, rows, skips)
@example("(A*?)", {}, [Row(0, 0), Row(1, 0)], "past last row")
@example("((A? | B)* C)", {"C": "x = 1"}, [Row(0, 0), Row(1, 1)], "past last row")
@example("((A?){1,2}? B) $", {}, [Row(0, 0), Row(0, 1)], "to next row")
@example(
    "(A !B*) $", {"B": "x > A.x"}, [Row(0, 1), Row(3, 1), Row(9, 2), Row(20, 0)], "to next row"
)
def test_matches_are_those_of_the_definition(pattern, define, given, skip):
    said = usable(pattern, define, skip)
    if said is None:
        return
    define, skip = said
    wanted = [expected(one) for one in reference(pattern, define, skip, given)]
    measures = measures_of(pattern)
    got = found(pattern, given, define, skip=skip, measures=measures, timeouts=True)
    asked = [0, 1, 2, *(3 + n for n, name in enumerate(MEASURES) if name in measures)]
    assert [list(one) for one in got] == [[one[n] for n in asked] for one in wanted]


@given(patterns, defines, rows, skips, st.data())
def test_neither_batches_nor_the_order_of_arrival_matter(pattern, define, given, skip, data):
    """Any arrival that the watermark allows, with the state through its bytes after every batch."""
    said = usable(pattern, define, skip)
    if said is None:
        return
    define, skip = said
    measures = {"all": "collect_list(coalesce(x, -1))"}
    planned = plan(pattern, define, WITHIN, skip, measures, True)
    clocked = Clocked(planned)
    watermark, got, left = 0, [], data.draw(st.permutations([Row(r.time + 1, r.x) for r in given]))
    while left:
        # What is at or before the next watermark must come now; of the rest, any.
        coming = data.draw(st.integers(watermark, 40))
        now = [row.time <= coming or data.draw(st.booleans()) for row in left]
        clocked.arrive([row for row, comes in zip(left, now, strict=True) if comes])
        left = [row for row, comes in zip(left, now, strict=True) if not comes]
        watermark = coming
        got += clocked.advance(watermark)
    got += clocked.advance(1_000)
    assert clocked.holds_nothing
    moved = [Row(row.time + 1, row.x) for row in given]
    at_once = found(pattern, moved, define, skip=skip, measures=measures, timeouts=True)
    assert [one[1:] for one in got] == at_once
