"""Stored queries against documents: pruned and unpruned the same, and each at its own time."""

from __future__ import annotations

import json
import random

import pytest

from headwater.processing.joins.versions import Change
from headwater.processing.percolator.fields import BadQuery, Fields
from headwater.processing.percolator.needs import needs
from headwater.processing.percolator.stored_queries import Standing, digest, recalled
from tests.conftest import SOAK

FIELDS = Fields(
    (
        ("title", "text default"),
        ("body", "text en_stem"),
        ("price", "float"),
        ("tags", "json default"),
    )
)
TITLE, BODY = 0, 1


def stored(*changes: tuple[str, int, str | None]) -> Standing:
    told = [Change(id, time, time, 0, n, text) for n, (id, time, text) in enumerate(changes)]
    return Standing(FIELDS).after(told)


def matched(standing: Standing, *documents: object, time: int = 10) -> list[tuple[int, str]]:
    texts = [json.dumps(each) for each in documents]
    return sorted(standing.matches(texts, [time] * len(texts)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("title:disk", {(TITLE, "disk")}),
        ("disk", {(TITLE, "disk"), (BODY, "disk")}),
        ("+title:a +title:failing", {(TITLE, "failing")}),
        ("+title:disk +(title:full title:failing)", {(TITLE, "disk")}),
        ("title:disk OR title:full", {(TITLE, "disk"), (TITLE, "full")}),
        ('title:"out of memory"', {(TITLE, "memory")}),
        ("title:IN [red green]", {(TITLE, "red"), (TITLE, "green")}),
        ("title:disk^3 -title:test", {(TITLE, "disk")}),
        ("title:disk +price:>5", None),
        ("+title:disk +price:>5", {(TITLE, "disk")}),
        ("price:[1 TO 5]", None),
        ("tags.colour:red", None),
        ("*", None),
        ('title:"a\\"bcd\\\\é"', {(TITLE, "bcd")}),
        ("title:naïve-Ünïcode", {(TITLE, "ünïcode")}),
        ("", set()),
    ],
)
def test_a_query_needs_the_words_without_which_it_finds_nothing(
    text: str, expected: set[tuple[int, str]] | None
):
    found = FIELDS.parse(text).needs
    assert (None if found is None else found[0]) == expected


def test_all_that_a_query_needs_is_known_the_rarest_first():
    found = FIELDS.parse('+title:disk +(title:full title:failing) +title:"out of memory"').needs
    assert found == tuple(
        frozenset((TITLE, word) for word in words)
        for words in (["memory"], ["disk"], ["out"], ["of"], ["full", "failing"])
    )


def test_what_tantivy_may_show_some_day_is_not_misread():
    for shown in (
        "",
        "Query(",
        "Query(NewQuery { a: 1 })",
        "Query(TermQuery(Term(field=0)))",
        "x y",
    ):
        assert needs(shown) is None


def test_words_phrases_ranges_and_their_opposites_find_documents():
    standing = stored(
        ("must", 1, "+disk -test"),
        ("phrase", 1, 'title:"disk full"'),
        ("stem", 1, "body:failing"),
        ("range", 1, "price:[5 TO *]"),
        ("tag", 1, "tags.colour:red"),
        ("all", 1, "*"),
    )
    found = matched(
        standing,
        {"title": "Disk full again", "body": "It fails", "price": 7.5},
        {"title": "full disk (a test)", "tags": {"colour": "Red"}},
        {"price": "NaN"},
        {},
    )
    names = {n: {query for number, query in found if number == n} for n in range(4)}
    assert names == {
        0: {"must", "phrase", "stem", "range", "all"},
        1: {"tag", "all"},
        2: {"all"},
        3: {"all"},
    }


def test_a_document_meets_the_queries_of_its_own_time():
    #  time      1      5        9
    #  q         "disk" "memory" removed
    standing = stored(("q", 1, "disk"), ("q", 5, "memory"), ("q", 9, None))
    texts = [json.dumps({"title": word}) for word in ("disk", "memory")] * 4
    times = [0, 0, 1, 4, 5, 5, 9, 9]
    # At 1 "disk" is found; at 5 "memory" is, and no longer "disk"; at 9 nothing.
    assert sorted(standing.matches(texts, times)) == [(2, "q"), (5, "q")]
    later = standing.without(7)
    assert sorted(later.matches(texts[4:], times[4:])) == [(1, "q")]
    assert later.without(9).stored == {}


def test_what_is_no_query_is_refused_with_the_reason():
    with pytest.raises(BadQuery, match="colour"):
        FIELDS.parse("colour:red")
    with pytest.raises(BadQuery, match="Only excluding"):
        FIELDS.parse("-disk")


def test_pruning_loses_no_match():
    for seed in range(200 if SOAK else 12):
        choice = random.Random(seed)
        words = [f"w{n}" for n in range(60)] + ["naïve", "x-y", "It's"]
        asked = [(f"q{n}", 0, text(choice, words)) for n in range(150)]
        standing = stored(*(each for each in asked if parses(each[2])))
        documents = [
            json.dumps(
                {
                    "title": " ".join(choice.choices(words, k=3)),
                    "body": " ".join(choice.choices(words, k=8)),
                    "price": choice.randrange(10),
                }
            )
            for _ in range(20)
        ]
        times = [1] * len(documents)
        pruned = sorted(standing.matches(documents, times))
        assert pruned == sorted(standing.matches(documents, times, prune=False)), f"seed {seed}"
        assert pruned, "no match at all shows nothing"


def text(choice: random.Random, words: list[str], depth: int = 0) -> str:
    """A random query in tantivy's syntax."""
    kind = choice.randrange(9 if depth < 2 else 4)
    field = choice.choice(["", "title:", "body:"])
    word = choice.choice(words)
    if kind == 0:
        return f'{field}"{word} {choice.choice(words)}"' + choice.choice(["", "~2", "*"])
    if kind == 1:
        return choice.choice([f"price:>{choice.randrange(10)}", f"title:IN [{word} w1]", "*"])
    if kind in (2, 3):
        return f"{field}{word}"
    parts = [text(choice, words, depth + 1) for _ in range(choice.randrange(2, 4))]
    if kind in (4, 5):
        return "(" + " ".join(choice.choice(["+", "", "-"]) + each for each in parts) + ")"
    return "(" + choice.choice([" AND ", " OR "]).join(parts) + ")" + choice.choice(["", "^2"])


def parses(asked: str) -> bool:
    try:
        FIELDS.parse(asked)
    except BadQuery:
        return False
    return True


def test_kept_queries_come_back_as_they_were():
    standing = stored(("a", 1, "disk"), ("b", 2, None))
    kept = standing.to_bytes()
    again = recalled(Fields(FIELDS.kinds[:2]), digest(kept), kept)  # other fields: not in memory
    assert again.stored == standing.stored
    assert recalled(again.fields, digest(kept), b"not needed") is again
