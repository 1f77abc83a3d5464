"""`headwater topics` against a running broker, and against none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headwater.project.broker_process import BrokerProcess


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "log") as broker:
        broker.start()
        yield broker.bootstrap
        broker.stop()


@pytest.fixture
def topics(headwater, bootstrap):
    return lambda *words: headwater("topics", *words, env={"HEADWATER_BOOTSTRAP": bootstrap})


def test_a_topic_is_created_listed_described_and_deleted(topics, bootstrap):
    assert topics("create", "life", "--partitions", "2").out == "Created topic life\n"
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("life", value=b"one", partition=1)
    assert producer.flush(60) == 0

    listed = {row["topic"]: row for row in topics("list", "--json").json()}
    assert listed["life"] == {"topic": "life", "partitions": 2, "offsets": 1}
    described = topics("describe", "life", "--json").json()
    assert [p["next_offset"] for p in described["partitions"]] == [0, 1]

    assert topics("delete", "life", "--yes").out == "Deleted topic life\n"
    assert "life" not in topics("list").out


def test_settings_given_at_creation_are_the_topics_own(topics):
    topics("create", "own", "--set", "cleanup.policy=compact", "--set", "retention.ms=5000")
    described = topics("describe", "own", "--json").json()
    assert described["settings"] == {"cleanup.policy": "compact", "retention.ms": "5000"}
    text = topics("describe", "own").out
    assert text.startswith(
        "Topic own, 1 partition\n  cleanup.policy=compact\n  retention.ms=5000\n"
    )


def test_alter_adds_partitions_sets_and_unsets(topics):
    topics("create", "altered", "--set", "retention.ms=5000")
    ran = topics(
        "alter",
        "altered",
        "--partitions",
        "3",
        "--set",
        "segment.ms=60000",
        "--unset",
        "retention.ms",
    )
    assert (ran.code, ran.out) == (0, "Altered topic altered\n")
    described = topics("describe", "altered", "--json").json()
    assert len(described["partitions"]) == 3
    assert described["settings"] == {"segment.ms": "60000"}


def test_a_table_lines_up(topics):
    topics("create", "a")
    topics("create", "a-longer-name", "--partitions", "12")
    head, *rows = topics("list").out.splitlines()
    assert head.split() == ["TOPIC", "PARTITIONS", "OFFSETS"]
    end = head.index("PARTITIONS") + len("PARTITIONS")
    ends = {row[:end].rstrip() == row[:end] for row in rows}
    assert ends == {True}


def test_create_again_is_an_error_unless_if_missing_is_said(topics):
    topics("create", "again")
    ran = topics("create", "again")
    assert ran.code == 1
    assert "already exists" in ran.err
    assert "--if-missing" in ran.err
    assert topics("create", "again", "--if-missing").out == "Topic again exists already\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["describe", "nowhere"], "there is no topic 'nowhere'; headwater topics list shows"),
        (["delete", "nowhere", "--yes"], "there is no topic 'nowhere'"),
        (["alter", "nowhere", "--partitions", "2"], "there is no topic 'nowhere'"),
        (["create", "b/d"], "TOPIC_EXCEPTION"),
        (["create", "c", "--set", "no.such=1"], "no.such (INVALID_CONFIG)"),
        (["create", "c", "--set", "retention.ms=soon"], "retention.ms"),
    ],
)
def test_what_the_broker_refuses_is_one_sentence(topics, words, sentence):
    ran = topics(*words)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.count("\n") == 1
    assert sentence in ran.err
    assert "nowhere" not in topics("list").out


def test_delete_asks_and_without_anybody_to_ask_does_nothing(topics):
    topics("create", "precious")
    ran = topics("delete", "precious")
    assert ran.code == 2
    assert "say --yes" in ran.err
    assert "precious" in topics("list").out


def test_the_logs_own_topics_are_hidden_unless_asked_for(topics):
    assert "__" not in topics("list").out


def test_no_broker_at_the_address_is_said_at_once(headwater):
    ran = headwater("topics", "list", "--bootstrap", "127.0.0.1:1")
    assert ran.code == 1
    assert ran.err == (
        "headwater: no broker answers at 127.0.0.1:1; start one with: headwater broker, "
        "or give its address with --bootstrap\n"
    )


def test_a_server_that_is_no_broker_is_told_apart_from_none(headwater):
    with socket.create_server(("127.0.0.1", 0)) as server:
        closer = threading.Thread(target=close_everything, args=(server,), daemon=True)
        closer.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        ran = headwater("topics", "list", "--bootstrap", address)
    assert ran.code == 1
    assert ran.err == (
        f"headwater: what listens at {address} does not answer as a Kafka broker; "
        "check the address, and what the broker logs\n"
    )


def close_everything(server: socket.socket) -> None:
    while True:
        try:
            server.accept()[0].close()
        except OSError:
            return


@pytest.mark.parametrize("address", ["nonsense", "host:port", "127.0.0.1:99999", ""])
def test_an_address_that_is_none_is_a_sentence_too(headwater, address: str, tmp_path: Path):
    ran = headwater("topics", "list", "--bootstrap", address)
    assert ran.code == 1
    assert ran.err.startswith(f"headwater: no broker answers at {address}")
