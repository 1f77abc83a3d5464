"""Many clients, several registries, and registries that are killed: an id and a version are given once."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest

from headwater.client import batches
from headwater.client.cluster import EARLIEST, LATEST, Cluster
from headwater.client.log import Log
from headwater.client.options import cluster_settings
from headwater.schemas import changes, deletion, records
from headwater.schemas.changes import Registration
from headwater.schemas.model import Schema
from headwater.schemas.store import Store
from headwater.testing import broker
from tests.schemas.conftest import started

CLIENTS = 50


def fixed(number: int) -> str:
    return json.dumps({"type": "fixed", "name": "f", "size": number})


def register(url: str, subject: str, text: str) -> httpx.Response:
    with httpx.Client(base_url=url, timeout=60) as http:
        return http.post(f"/subjects/{subject}/versions", json={"schema": text})


def facts(bootstrap: str) -> list[records.Fact]:
    """Every record that was ever accepted, in the order of the log."""
    with Log(bootstrap) as log:
        cluster = Cluster(cluster_settings(log.settings))
        place = (records.TOPIC, 0)
        first = cluster.list_offsets({place: EARLIEST})[place]
        end = cluster.list_offsets({place: LATEST})[place]
        some = batches.read_records(cluster, place, first, end)
        found = [records.decoded(each.key, each.value) for part in some for each in part]
        cluster.close()
    return [each for each in found if each is not None]


def given(bootstrap: str) -> dict[int, set[str]]:
    """Id → the texts that it was ever given to."""
    found: dict[int, set[str]] = {}
    for fact in facts(bootstrap):
        if fact.kind == records.SCHEMA and fact.value:
            found.setdefault(fact.value["id"], set()).add(fact.value["schema"])
    return found


@pytest.mark.parametrize("registries", [1, 2])
def test_clients_that_register_one_new_schema_get_one_id(registries):
    with broker() as kafka, ExitStack() as stack:
        urls = [stack.enter_context(started(kafka.bootstrap))[1] for _ in range(registries)]
        together = threading.Barrier(CLIENTS)

        def one(number: int) -> tuple[int, int]:
            together.wait(60)
            answer = register(urls[number % registries], "orders-value", fixed(9))
            assert answer.status_code == 200, answer.text
            return answer.json()["id"], answer.json()["version"]

        with ThreadPoolExecutor(CLIENTS) as pool:
            assert set(pool.map(one, range(CLIENTS))) == {(1, 1)}
        written = [f for f in facts(kafka.bootstrap) if f.kind == records.SCHEMA]
        assert len(written) == 1


@pytest.mark.timeout(900)
def test_no_id_is_given_twice_when_registries_are_killed_at_any_moment():
    answered: dict[int, set[str]] = {}
    lock, over = threading.Lock(), threading.Event()

    def ask(urls: list[str], number: int) -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            size = number * 10_000 + turn
            try:
                answer = register(urls[number % 2], f"s{number}-{turn}", fixed(size))
            except httpx.TransportError:
                over.wait(0.02)  # killed, or not there yet: it needs the processor more than we do
                continue
            if answer.status_code == 200:
                with lock:
                    answered.setdefault(answer.json()["id"], set()).add(fixed(size))

    with broker() as kafka:
        urls = ["http://127.0.0.1:1", "http://127.0.0.1:1"]
        threads = [threading.Thread(target=ask, args=(urls, number)) for number in range(6)]
        for each in threads:
            each.start()
        try:
            for turn in range(6):
                before = len(answered)
                with started(kafka.bootstrap) as (process, url):
                    urls[turn % 2] = url
                    until(lambda before=before: len(answered) >= before + 5)
                    process.kill()  # in the middle of whatever it does
        finally:
            over.set()
            for each in threads:
                each.join()
        assert len(answered) >= 30
        assert all(len(texts) == 1 for texts in answered.values())
        in_the_log = {
            i: {json.loads(t)["size"] for t in ts} for i, ts in given(kafka.bootstrap).items()
        }
        assert all(len(sizes) == 1 for sizes in in_the_log.values())
        for identity, texts in answered.items():  # what was answered is there
            assert {json.loads(each)["size"] for each in texts} == in_the_log[identity]


def until(condition) -> None:
    import time

    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def put(store: Store, subject: str, text: str) -> records.Version:
    return store.change(lambda s: changes.register(s, Registration(subject, Schema(text))))


def test_a_registry_that_stalled_cannot_write_what_it_decided_long_ago(kafka):
    with Log(kafka) as one, Log(kafka) as other, ExitStack() as stack:
        first = stack.enter_context(Store(one, "stalled"))
        second = stack.enter_context(Store(other, "stalled"))
        put(first, "a", fixed(1))

        def stall(state):
            """Decides, and while it does so another registry writes."""
            decision = changes.register(state, Registration("b", Schema(fixed(2))))
            if "c" not in second.state.subjects():
                put(second, "c", fixed(3))
            return decision

        late = first.change(stall)
        assert second.state.versions("c")[0].id == 2
        assert late.id == 3
        second.catch_up()
        assert second.state.versions("b")[0].id == 3


def test_an_id_that_was_deleted_for_good_is_not_given_again(kafka):
    with Log(kafka) as log:
        with Store(log, "gone") as store:
            last = put(store, "a", fixed(1)).id
            store.change(lambda s: deletion.delete_subject(s, "a", permanent=False))
            store.change(lambda s: deletion.delete_subject(s, "a", permanent=True))
        with Store(log, "gone") as store:
            assert store.state.subjects(deleted=True) == []
            assert put(store, "b", fixed(2)).id == last + 1


def test_what_one_registry_has_answered_another_knows(kafka):
    with started(kafka) as (_, one), started(kafka) as (_, other):
        for number in range(20):
            made = register(one, f"seen-{number}", fixed(70_000 + number)).json()["id"]
            assert httpx.get(f"{other}/schemas/ids/{made}", timeout=60).status_code == 200
            found = httpx.get(f"{other}/subjects/seen-{number}/versions/latest", timeout=60)
            assert found.json()["id"] == made
