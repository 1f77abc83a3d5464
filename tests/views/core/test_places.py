"""Two views never share a place: not in one program, and not in one store, however the names are written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.pipelines.declarations import Declarations, View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.handles import placed
from headwater.pipelines.targets import make_place
from headwater.testing.targets import ADA, BOB, Writer, rows_of, shape
from headwater.views.targets import places
from headwater.views.targets.contract import Kind, Misfit, Target
from headwater.views.targets.function import FunctionTarget
from headwater.views.targets.places import place_of
from headwater.views.targets.registry import target_for


def view(name: str, to: str, **options: str) -> View:
    return View(name, lambda: None, to, ("id",), options=options, place=f"{__file__}:{len(name)}")


SHARED = [
    (("a", "sqlite:x.db", "t"), ("b", "sqlite:x.db", "t")),
    (("a", "sqlite:x.db", "t"), ("b", "sqlite:./y/../x.db", "T")),
    (("Orders", "sqlite:x.db", None), ("orders", "sqlite:x.db", None)),
    (("x", "sqlite:x.db", None), ("x__v2", "sqlite:x.db", None)),
    (("X__V2", "duckdb:x.db", None), ("x", "duckdb:x.db", None)),
    (("a", "sqlite:x.db", None), ("b", "duckdb:x.db", None)),
    (("a", "postgresql://h/d", "t"), ("b", "postgres://H:5432/d", "t")),
    (("x", "postgresql://h/d", None), ("x__v1_key", "postgresql://h/d", None)),
    (("a", "redis://h", "t"), ("b", "redis://:secret@h:6379/0", "t")),
    (("a", "redis://h/1", "t"), ("b", "redis://h/1", "t:v1:b")),
    (("a", "opensearch+http://h:9200", "t"), ("b", "elasticsearch+http://h:9200/", "t")),
    (("a", "opensearch+http://h:9200", None), ("a-v1", "opensearch+http://h:9200", None)),
    (("a", "delta:data/a", None), ("b", "delta:data/a", None)),
    (("a", "delta:data", None), ("b", "search:data/b", None)),
    (("a", "search:data", "b"), ("b", "parquet:data/b/c", None)),
    (("a", "parquet:data", None), ("b", "sqlite:data/b.db", None)),
    (("a", "topic:t", None), ("b", "topic:t", None)),
    (("t", "topic:t", None), ("b", "topic:t", None)),
]
APART = [
    (("a", "sqlite:x.db", None), ("b", "sqlite:x.db", None)),
    (("a", "sqlite:x.db", "t"), ("b", "sqlite:y.db", "t")),
    (("Orders", "postgresql://h/d", None), ("orders", "postgresql://h/d", None)),
    (("a", "postgresql://h/d", "t"), ("b", "postgresql://h/e", "t")),
    (("Ärger", "duckdb:x.db", None), ("ärger", "duckdb:x.db", None)),
    (("a", "redis://h/1", "t"), ("b", "redis://h/2", "t")),
    (("a", "redis://h/1", "t"), ("b", "redis://h/1", "t:orders")),
    (("a", "delta:data", "a"), ("b", "delta:data", "b")),
    (("a", "parquet:data/a", None), ("b", "parquet:data/ab", None)),
    (("a", "topic:t", None), ("b", "topic:T", None)),
    (("a", "memory:", None), ("b", "memory:", None)),
]


def _declared(name: str, to: str, table: str | None) -> View:
    return view(name, to, **({} if table is None else {"table": table}))


@pytest.mark.parametrize(("one", "other"), SHARED)
def test_two_views_of_a_program_that_would_share_a_place_are_refused_when_declared(one, other):
    for first, second in ((one, other), (other, one)):
        declarations = Declarations()
        declarations.add(_declared(*first))
        with pytest.raises(PipelineError, match="would share a place") as raised:
            declarations.add(_declared(*second))
        assert "secret" not in str(raised.value)
        assert first[0] in str(raised.value) and second[0] in str(raised.value)


@pytest.mark.parametrize(("one", "other"), APART)
def test_views_in_places_of_their_own_are_declared(one, other):
    declarations = Declarations()
    declarations.add(_declared(*one))
    declarations.add(_declared(*other))


def test_a_place_given_on_the_command_line_is_looked_at_too():
    views = [view("a", "sqlite:x.db"), view("b", "sqlite:y.db", table="a")]
    with pytest.raises(PipelineError, match="would share a place"):
        placed(views, {"b": "sqlite:x.db"})


def test_a_link_to_a_folder_is_that_folder(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    one = place_of(f"delta:{tmp_path}/real/x", "a", {})
    other = place_of(f"search:{tmp_path}/link", "b", {})
    assert one is not None and other is not None and one.clashes(other)


NAMES = st.text("aAbB_v12:-", min_size=1, max_size=8)


@settings(max_examples=300, deadline=None)
@given(NAMES, NAMES, st.sampled_from([places.SQLITE, places.POSTGRES, places.REDIS]))
def test_a_clash_does_not_depend_on_who_came_first(one, other, naming):
    assert naming.clash(one, one)
    assert naming.clash(one, other) == naming.clash(other, one)


# ---- across programs: what the store's book lists -----------------------------------------------------

Store = Callable[..., Target]


@pytest.fixture(params=["sqlite", "duckdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    def make(name: str, *, version: int = 1, **options: str) -> Target:
        given = shape(view=name, version=version, options=options)
        return target_for(f"{request.param}:{tmp_path / 'shop.db'}", given)

    return make


@pytest.mark.parametrize("table", ["t", "T"])
def test_a_table_of_another_view_is_refused_before_anything_is_written(store: Store, table: str):
    writer = Writer(store("one", table="t"))
    with pytest.raises(Misfit, match="holds the view 'one'"):
        store("two", table=table).create()
    writer.write(0, [ADA])
    with pytest.raises(Misfit, match="holds the view 'one'"):
        store("two", table=table).create()
    assert rows_of(writer.target) == [ADA]
    assert store("two").versions() == {}


def test_a_rebuild_does_not_adopt_a_view_that_is_called_like_its_version(store: Store):
    Writer(store("x")).write(0, [ADA])
    with pytest.raises(Misfit, match="holds the view 'x'"):
        store("x__v2").create()
    Writer(store("y__v2"))
    with pytest.raises(Misfit, match="holds the view 'y__v2'"):
        store("y").create()
    second = Writer(store("x", version=2))
    second.write(0, [BOB])
    second.target.switch()
    assert rows_of(store("x", version=2)) == [BOB]
    assert rows_of(store("y__v2")) == []


def test_names_that_the_store_or_the_target_needs_are_refused(store: Store):
    for name in ("headwater_views", "HEADWATER_staged"):
        with pytest.raises(Misfit, match="not for views"):
            store(name).create()


def test_sqlites_own_names_are_refused_in_words(tmp_path: Path):
    with pytest.raises(Misfit, match="not for views"):
        target_for(f"sqlite:{tmp_path / 'x.db'}", shape(view="SQLite_stat1")).create()


def test_two_views_that_share_a_table_since_long_are_not_written_to_any_further(tmp_path: Path):
    path = tmp_path / "x.db"
    one, other = (target_for(f"sqlite:{path}", shape(view=name)) for name in ("one", "other"))
    one.create()
    other.create()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE headwater_views SET place = 'one'")
    connection.close()
    for target in (one, other):
        with pytest.raises(Misfit, match="holds the view"):
            target.create()


def test_a_table_of_somebody_else_in_other_letters_is_met_in_words(tmp_path: Path):
    import duckdb

    with duckdb.connect(str(tmp_path / "x.db")) as connection:
        connection.execute('CREATE TABLE "Customers" (id INTEGER)')
    with pytest.raises(Misfit):
        target_for(f"duckdb:{tmp_path / 'x.db'}", shape()).create()


@pytest.mark.parametrize("scheme", ["delta", "search"])
def test_a_folder_inside_the_folder_of_a_view_is_refused(scheme: str, tmp_path: Path):
    target_for(f"{scheme}:{tmp_path}/data", shape(view="one")).create()
    (tmp_path / "link").symlink_to(tmp_path / "data" / "current")
    for inside in ("data/deep/two", "data/v1/two", "link/two", "link"):
        for other in ("delta", "search"):
            with pytest.raises(Misfit, match="folder of another view"):
                target_for(f"{other}:{tmp_path}/{inside}", shape(view="two")).create()
    with pytest.raises(Misfit, match="holds the view 'one'"):
        target_for(f"{scheme}:{tmp_path}/data", shape(view="two")).create()


def test_a_folder_of_delta_does_not_become_one_of_search(tmp_path: Path):
    target_for(f"delta:{tmp_path}/data", shape()).create()
    with pytest.raises(Misfit, match="delta:"):
        target_for(f"search:{tmp_path}/data", shape()).create()
    note = tmp_path / "data" / "headwater_views"
    note.write_text(json.dumps({"view": "customers"}))  # of an earlier version
    target_for(f"delta:{tmp_path}/data", shape()).create()


def test_files_of_spark_go_to_a_folder_of_their_own(tmp_path: Path):
    target_for(f"delta:{tmp_path}/data", shape(view="one")).create()
    with pytest.raises(PipelineError, match="folder of another view"):
        make_place(view("two", f"parquet:{tmp_path}/data/two"))
    (tmp_path / "files" / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(PipelineError, match="folder of another view"):
        make_place(view("two", f"parquet:{tmp_path}/files/two"))
    with pytest.raises(Misfit, match="folder of another view"):
        target_for(f"delta:{tmp_path}/files/two", shape(view="two")).create()
    with pytest.raises(PipelineError, match="files that are not its own"):
        make_place(view("two", f"parquet:{tmp_path}"))
    make_place(view("two", f"parquet:{tmp_path}/fresh"))


def test_a_folder_with_the_position_of_one_function_is_not_anothers(tmp_path: Path):
    def target(name: str) -> FunctionTarget:
        return FunctionTarget(print, tmp_path, "function:print", shape(Kind.UPSERT, view=name))

    Writer(target("one"))
    with pytest.raises(Misfit, match="how far the view 'one' is"):
        target("two").create()
