"""Views over HTTP: rows with the position they are of, and waiting for what was just written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from headwater.client.log import Log
from headwater.edges.feeds import hub_of
from headwater.project.file import load
from tests.edges.reads.conftest import Made
from tests.edges.running import edges, until
from tests.edges.slow import slow_client

ADA, BOB, CAT = (1, "Ada", 1.5), (2, "Bob", 2.5), (3, "Cat/Dog", None)
HEADER = "Headwater-Position"
SECRET = "a secret of sixteen or more"


@pytest.fixture
def served(log: Log, make: Callable[..., Made], pipelines: Callable[..., Path]):
    """Edges of a project with two views: in SQLite, and in a full-text index."""
    customers, found = make("sqlite"), make("search")
    with edges(log.bootstrap, project=load(pipelines(customers[0], found[0]))) as running:
        yield running.url, customers, found


def test_rows_come_with_the_position_that_they_are_of(served):
    url, (view, writer), _ = served
    rows = f"{url}/views/{view.name}/rows"
    assert httpx.get(rows).json()["rows"] == []
    writer.write(0, [ADA, BOB, CAT])
    answer = httpx.get(f"{rows}/2")
    assert answer.json() == {"id": 2, "name": "Bob", "total": 2.5}
    assert answer.headers[HEADER] == "customers:0=1"
    answer = httpx.get(f"{rows}/17")
    assert answer.status_code == 404
    assert answer.json()["hint"] == "the view is at customers:0=1"
    first = httpx.get(rows, params={"limit": 2}).json()
    assert ([row["id"] for row in first["rows"]], first["next"]) == ([1, 2], "2")
    rest = httpx.get(rows, params={"limit": 2, "after": first["next"]}).json()
    assert ([row["id"] for row in rest["rows"]], rest["next"]) == ([3], None)


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [
        ("views/{}/rows", "limi=2", "no parameter 'limi'; did you mean 'limit'"),
        ("views/{}/rows", "as_of=customers:0=1", "headwater rows --as-of"),
        ("views/{}/rows/1", "limit=2", "there are position, timeout"),
        ("views/{}", "wher=id=1", "did you mean 'where'"),
        ("topics/customers", "grpe=Ada", "did you mean 'grep'"),
    ],
)
def test_a_parameter_that_is_not_there_is_told_and_not_passed_over(
    served, path: str, query: str, said: str
):
    url, (view, _), _ = served
    answer = httpx.get(f"{url}/{path.format(view.name)}?{query}", timeout=60)
    assert (answer.status_code, said in answer.text) == (400, True), answer.text


def test_a_read_waits_for_what_was_written(served):
    url, (view, writer), _ = served
    writer.write(0, [ADA])
    row = f"{url}/views/{view.name}/rows/1"
    late = threading.Timer(0.3, writer.write, (1, [(1, "Ava", None)]))
    late.start()
    answer = httpx.get(row, headers={HEADER: "customers:0=2"}, params={"timeout": 60}, timeout=90)
    assert answer.json()["name"] == "Ava"
    assert answer.headers[HEADER] == "customers:0=2"
    late.join()
    answer = httpx.get(row, params={"position": "customers:0=5", "timeout": 0})
    assert answer.status_code == 503
    assert "3 records behind" in answer.json()["detail"]
    assert answer.headers[HEADER] == "customers:0=2"
    assert "retry-after" in answer.headers
    for position in ("nonsense", "elsewhere:0=1"):
        assert httpx.get(row, headers={HEADER: position}).status_code == 400


def test_words_are_searched_where_there_is_an_index(served):
    url, (table, _), (view, writer) = served
    writer.write(0, [ADA, BOB])
    answer = httpx.get(f"{url}/views/{view.name}/search", params={"q": "ada"})
    assert [row["id"] for row in answer.json()["rows"]] == [1]
    assert answer.headers[HEADER] == "customers:0=1"
    assert httpx.get(f"{url}/views/{view.name}/search", params={"q": "x:["}).status_code == 400
    assert httpx.get(f"{url}/views/{table.name}/search", params={"q": "ada"}).status_code == 400


def test_what_there_is_can_be_asked_for_and_what_is_not_is_a_problem(served):
    url, (view, _), (found, _) = served
    assert httpx.get(f"{url}/views").json() == {
        "views": [
            {"view": view.name, "key": ["id"], "in": "sqlite"},
            {"view": found.name, "key": ["id"], "in": "search"},
        ]
    }
    answer = httpx.get(f"{url}/views/nothing/rows")
    assert answer.status_code == 404 and "GET /views" in answer.json()["hint"]
    assert httpx.get(f"{url}/views/{view.name}/rows", params={"limit": 0}).status_code == 422


def test_who_may_not_list_views_learns_no_name_from_one_that_is_not_there(
    log: Log, make: Callable[..., Made], pipelines: Callable[..., Path], monkeypatch
):
    monkeypatch.setenv("GUEST_TOKEN", SECRET)
    view, _ = make("sqlite")
    tokens = {"guest": {"secret": "${GUEST_TOKEN}", "read": ["view:guest*"]}}
    with edges(log.bootstrap, {"tokens": tokens}, load(pipelines(view))) as running:
        asking = {"Authorization": f"Bearer {SECRET}"}
        assert httpx.get(f"{running.url}/views", headers=asking).status_code == 403
        for path in ("guest/rows", f"guest{view.name}/rows/1", f"guest{view.name}"):
            answer = httpx.get(f"{running.url}/views/{path}", headers=asking)
            assert answer.status_code == 404
            assert view.name not in answer.text.replace(f"guest{view.name}", "")


def test_a_pipeline_file_that_is_changed_is_read_again_and_one_that_is_wrong_is_told(
    log: Log, make: Callable[..., Made], pipelines: Callable[..., Path], monkeypatch
):
    monkeypatch.setattr("headwater.edges.rows.catalogue.LOOK_S", 0.0)
    view, writer = make("sqlite")
    writer.write(0, [CAT])
    project = pipelines(view)
    source = project.parent / "pipelines" / "views.py"
    with edges(log.bootstrap, project=load(project)) as running:
        url = f"{running.url}/views/renamed/rows/3"
        assert httpx.get(url).status_code == 404
        good = source.read_text()
        source.write_text("import nothing_like_this\n")
        answer = httpx.get(url)
        assert answer.status_code == 503 and "nothing_like_this" in answer.json()["detail"]
        source.write_text(good.replace(view.name, "renamed"))
        answer = httpx.get(url)
        assert answer.status_code == 404 and "no rows yet" in answer.json()["detail"]


def test_rows_count_until_they_are_taken_and_are_ended_where_nobody_takes_them(
    log: Log, make: Callable[..., Made], pipelines: Callable[..., Path]
):
    view, writer = make("sqlite")
    writer.write(0, [(1, "\x01" * 900_000, None)])  # six times as long in JSON
    limits = {"limits": {"slow_seconds": 1}}
    with edges(log.bootstrap, limits, project=load(pipelines(view))) as running:
        held = hub_of(running.context).pages
        with slow_client(f"{running.url}/views/{view.name}/rows?limit=1") as client:
            until(lambda: held.bytes == 0, "that they count no more")
            assert client.take_all() < client.length
        assert httpx.get(f"{running.url}/views/{view.name}/rows").headers[HEADER] == "customers:0=1"
        until(lambda: held.bytes == 0, "that they count no more")
