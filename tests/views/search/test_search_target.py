"""Views as search indexes: what every target must do, and what only this one does."""

from __future__ import annotations

import datetime as dt
import math
import unicodedata
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
import tantivy

from headwater.testing.target_columns import WideningConformance
from headwater.testing.targets import (
    ADA,
    BOB,
    CAT,
    Make,
    TargetConformance,
    Writer,
    gone,
    rows_of,
    shape,
)
from headwater.views.targets.contract import Kind, Misfit, Unavailable
from headwater.views.targets.registry import target_for
from headwater.views.targets.search import target as target_module
from headwater.views.targets.search.index import BadSearch, SearchIndex
from headwater.views.targets.search.target import SearchTarget

BOOKS = pa.schema(
    [
        ("id", pa.int64()),
        ("title", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("price", pa.decimal128(8, 2)),
        ("since", pa.date32()),
        ("about", pa.struct([("author", pa.string())])),
    ]
)
SEA = (1, "The old man and the sea", ["sea", "fish"], Decimal("9.50"), dt.date(1952, 9, 1),
       {"author": "Hemingway"})  # fmt: skip
WHALE = (2, "Moby-Dick; or, the whale", ["sea", "whale"], Decimal("12.00"), dt.date(1851, 10, 18),
         {"author": "Melville"})  # fmt: skip
HEATH = (3, "Wuthering Heights", None, None, dt.date(1847, 12, 1), {"author": "Brontë"})


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return lambda given: target_for(f"search:{tmp_path / given.view}", given)


class TestConformance(TargetConformance, WideningConformance):
    @pytest.fixture
    def make(self, tmp_path: Path) -> Make:
        return lambda given: target_for(f"search:{tmp_path / given.view}", given)


@pytest.fixture
def books(make: Make) -> SearchTarget:
    target = make(shape(view="books", schema=BOOKS))
    Writer(target).write(0, [SEA, WHALE, HEATH])
    assert isinstance(target, SearchTarget)
    return target


def test_words_are_found_and_the_best_come_first(books: SearchTarget):
    assert [row["id"] for row in books.search("sea")] == [1, 2]  # twice, and once
    best = books.search("old whale heights", limit=1)[0]
    assert best["_score"] > 0
    assert [row["title"] for row in books.search('"the whale"')] == [WHALE[1]]
    assert books.search("submarine") == []
    assert books.search("sea", limit=0) == []
    assert [row["id"] for row in books.search("sea", limit=1, offset=1)] == [2]


def test_every_column_can_be_asked(books: SearchTarget):
    def ids(text: str) -> list[int]:
        return sorted(row["id"] for row in books.search(text))

    assert ids("tags:fish") == [1]
    assert ids("price:>10") == [2]
    assert ids("since:[1840-01-01T00:00:00Z TO 1860-01-01T00:00:00Z]") == [2, 3]
    assert ids("about.author:melville") == [2]
    assert ids("id:3") == [3]
    assert ids("+sea -whale") == [1]
    assert ids("*") == [1, 2, 3]  # and not the document that says how far the view is


def test_rows_come_back_whole(books: SearchTarget):
    assert books.search("heights")[0] == {
        "id": 3, "title": "Wuthering Heights", "tags": None, "price": None, "since": "1847-12-01",
        "about": {"author": "Brontë"}, "_score": pytest.approx(books.search("heights")[0]["_score"]),
    }  # fmt: skip


def test_what_is_no_query_is_said(books: SearchTarget, tmp_path: Path):
    for text in ('"open', "price:abc"):
        with pytest.raises(BadSearch, match="cannot search for"):
            books.search(text)
    with pytest.raises(BadSearch, match="no index yet"):
        SearchIndex.current(tmp_path / "nowhere")


def test_words_can_be_found_by_their_stem(make: Make):
    target = make(shape(options={"tokenizer": "en_stem"}))
    Writer(target).write(0, [(1, "running shoes", None)])
    assert isinstance(target, SearchTarget)
    assert [row["id"] for row in target.search("run shoe")] == [1]
    with pytest.raises(Misfit, match="no tokenizer"):
        make(shape(view="other", options={"tokenizer": "x"})).create()


def test_a_search_sees_the_version_that_readers_see(make: Make):
    old, new = Writer(make(shape())), Writer(make(shape(version=2)))
    old.write(0, [ADA])
    new.write(0, [(1, "Ada Lovelace", None)])
    assert isinstance(old.target, SearchTarget)
    assert old.target.search("lovelace") == []
    new.target.switch()
    assert [row["name"] for row in old.target.search("ada")] == ["Ada Lovelace"]


def test_any_tool_for_tantivy_opens_the_current_index(make: Make, tmp_path: Path):
    Writer(make(shape())).write(0, [ADA, BOB])
    index = tantivy.Index.open(str(tmp_path / "customers" / "current"))
    hits = index.searcher().search(index.parse_query("ada", ["name"])).hits
    assert len(hits) == 1


def test_a_search_that_was_opened_stays_as_it_was(make: Make, tmp_path: Path):
    writer = Writer(make(shape()))
    writer.write(0, [(n, "old", None) for n in range(50)])
    before = SearchIndex.current(tmp_path / "customers")
    for batch in range(1, 12):  # enough for segments to be merged and removed
        writer.write(batch, [(n, "new", None) for n in range(50)])
    assert len(before.search("old", 100)) == 50
    assert rows_of(writer.target) == sorted([(n, "new", None) for n in range(50)], key=repr)


def test_rows_that_an_index_cannot_take_are_refused_and_the_rest_goes_on(make: Make):
    schema = pa.schema([("id", pa.string()), ("at", pa.timestamp("us", "UTC"))])
    writer = Writer(make(shape(schema=schema)))
    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    far = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)
    refusals = writer.write(0, [("a", day), ("k" * 70_000, day), ("b", far), ("c", None)])
    assert [(each.number, each.reason) for each in refusals] == [
        (1, "its key has more than 65530 bytes"),
        (2, "at is not between 1677 and 2262"),
    ]
    assert rows_of(writer.target) == [("a", day), ("c", None)]


def test_numbers_that_are_none_are_kept_and_not_searched_for(make: Make):
    writer = Writer(make(shape()))
    assert writer.write(0, [(1, "x", math.inf), (2, "y", -math.inf)]) == []
    assert rows_of(writer.target) == [(1, "x", math.inf), (2, "y", -math.inf)]


def test_names_that_are_no_fields_are_refused(make: Make):
    for name in ("_row", "-x"):
        with pytest.raises(Misfit, match="cannot be a field"):
            make(shape(schema=pa.schema([("id", pa.int64()), (name, pa.string())]))).create()


def test_another_writer_is_waited_for_then_the_index_is_unavailable(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    writer = Writer(make(shape()))
    part = writer.stage(0, 0, [ADA])
    other = tantivy.Index.open(str(tmp_path / "customers" / "v1")).writer(15_000_000, 1)
    monkeypatch.setattr(target_module, "PATIENCE_S", 0.05)
    with pytest.raises(Unavailable, match="another writer"):
        writer.commit(0, [part])
    other.wait_merging_threads()
    writer.commit(0, [part])
    assert rows_of(writer.target) == [ADA]


def test_a_commit_that_fails_half_way_leaves_nothing(make: Make):
    writer = Writer(make(shape()))
    writer.write(0, [ADA])
    good, lost = writer.stage(1, 0, [BOB, gone(1)]), writer.stage(1, 1, [CAT])
    Path(lost.place).unlink()
    with pytest.raises(Unavailable, match="not there"):
        writer.commit(1, [good, lost])
    assert rows_of(writer.target) == [ADA]
    writer.write(1, [BOB], [CAT, gone(1)])
    assert rows_of(writer.target) == [BOB, CAT]


def test_events_without_a_key_are_searched_too(make: Make):
    target = make(shape(Kind.APPEND))
    Writer(target).write(0, [ADA, ADA, BOB])
    assert isinstance(target, SearchTarget)
    assert len(target.search("ada")) == 2


TEXTS = pa.schema(
    [("id", pa.int64()), ("text", pa.string()), ("more", pa.struct([("x", pa.string())]))]
)
SENTENCE = "这是一个很长的中文句子没有任何空格也没有标点符号所以它对分词器来说是一个词"


@pytest.mark.parametrize("tokenizer", ["default", "en_stem"])
def test_long_words_sentences_without_spaces_and_composed_letters_are_found(
    make: Make, tokenizer: str
):
    target = make(shape(schema=TEXTS, options={"tokenizer": tokenizer}))
    rows = [
        (1, f"a hash {'ab' * 32} in a line", None),
        (2, SENTENCE, {"x": "北京大学"}),
        (3, unicodedata.normalize("NFD", "café über"), None),
        (4, "東京タワー ไปเที่ยว", None),
    ]
    Writer(target).write(0, rows)

    def found(text: str) -> list[int]:
        return sorted(row["id"] for row in target.search(text))

    assert found("ab" * 32) == [1]
    assert found(SENTENCE) == [2]
    assert found("中文句子") == [2]
    assert found('"中文句子"') == [2]
    assert found("句子中文") == []  # these letters are there, and not in this order
    assert found("more.x:大学") == [2]
    for form in ("NFC", "NFD"):
        assert found(unicodedata.normalize(form, "café")) == [3]
        assert found(unicodedata.normalize(form, "über")) == [3]
    assert found("タワー") == [4]
    assert found("เที่ยว") == [4]
    assert rows_of(target) == sorted(rows, key=repr)  # as they were, letter by letter


def test_a_text_that_is_not_cut_into_words_is_found_however_it_was_typed(make: Make):
    target = make(shape(options={"tokenizer": "raw"}))
    Writer(target).write(0, [(1, unicodedata.normalize("NFD", "Café"), None)])
    assert [row["id"] for row in target.search(unicodedata.normalize("NFC", "name:Café"))] == [1]
