"""Connectors of Kafka Connect as captures and views: what they say is kept, and what is not is told."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from headwater.capture.config import from_mapping
from headwater.cli.imports import added, imported
from headwater.errors import HeadwaterError
from headwater.project.connect.configuration import NotUnderstood
from headwater.project.connect.section import Outcome
from tests import fork_server

POSTGRES = {
    "name": "inventory-connector",
    "config": {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": "db.example",
        "database.port": "5433",
        "database.user": "app",
        "database.password": "hunter2hunter2",
        "database.dbname": "shop",
        "topic.prefix": "inventory",
        "table.include.list": "public.orders,sales.customers",
        "plugin.name": "pgoutput",
        "slot.name": "debezium",
        "publication.name": "dbz_publication",
        "tombstones.on.delete": "false",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://registry:8081",
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
        "a.setting.of.tomorrow": "1",
    },
}
JDBC = """
# a sink
name=orders-sink
connector.class=io.confluent.connect.jdbc.JdbcSinkConnector
topics=shop.orders,shop.customers
connection.url=jdbc:postgresql://warehouse:5432/dw
connection.user=loader
connection.password=${file:/secrets/dw:password}
insert.mode=insert
pk.mode=record_key
pk.fields=id
table.name.format=${topic}
"""


def of(folder: Path, given: dict[str, Any] | str) -> Outcome:
    path = folder / "connector.json"
    path.write_text(given if isinstance(given, str) else json.dumps(given))
    return imported(path)


def test_a_debezium_connector_becomes_a_capture_that_can_be_read(tmp_path: Path) -> None:
    outcome = of(tmp_path, POSTGRES)
    section = tomllib.loads(outcome.toml())["capture"]["inventory"]
    assert section == {
        "from": "postgresql://app:${INVENTORY_PASSWORD}@db.example:5433/shop",
        "tables": ["orders", "sales.customers"],
        "format": "avro",
        "tombstones": False,
        "publication": "dbz_publication",
    }
    read = {**section, "from": "postgresql://app@db.example:5433/shop"}
    assert from_mapping("inventory", read, "127.0.0.1:9092").tables == ("orders", "sales.customers")


def test_no_password_is_copied_and_what_has_no_counterpart_is_told(tmp_path: Path) -> None:
    outcome = of(tmp_path, POSTGRES)
    said = "\n".join(outcome.notes)
    assert "hunter2" not in outcome.toml() + said
    assert "a.setting.of.tomorrow has no counterpart" in said
    assert "INVENTORY_PASSWORD" in said
    assert re.findall(r"^(.*): Transforms are", said, re.M) == [
        "transforms, transforms.unwrap.type"
    ]
    assert "drop the connector's slot" in said
    assert "Topics are called inventory.TABLE" in said


@pytest.mark.parametrize(
    ("kind", "more", "address"),
    [
        ("mysql.MySqlConnector", {"database.include.list": "shop"}, "mysql://app@db:3306/shop"),
        ("mariadb.MariaDbConnector", {"database.include.list": "a,b"}, "mariadb://app@db:3306/a"),
    ],
)
def test_other_databases_have_their_own_addresses(
    tmp_path: Path, kind: str, more: dict[str, str], address: str
) -> None:
    settings = {
        "connector.class": f"io.debezium.connector.{kind}",
        "database.hostname": "db",
        "database.user": "app",
        "database.server.id": "184054",
        "topic.prefix": "s",
        "table.include.list": "shop.orders,shop\\.items",
        **more,
    }
    section = of(tmp_path, settings).sections["capture.s"]
    assert section["from"] == address
    assert section["server_id"] == 184054
    assert section["tables"] == ["orders", "items"]


def test_mongodb_keeps_its_connection_string(tmp_path: Path) -> None:
    settings = {
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        "mongodb.connection.string": "mongodb://m1,m2/?replicaSet=rs0",
        "topic.prefix": "s",
        "collection.include.list": "shop.orders",
    }
    section = of(tmp_path, settings).sections["capture.s"]
    assert section == {"from": "mongodb://m1,m2/?replicaSet=rs0", "tables": ["orders"]}


def test_a_jdbc_sink_becomes_views_and_a_pipeline(tmp_path: Path) -> None:
    outcome = of(tmp_path, JDBC)
    to = "postgresql://loader:${ORDERS_SINK_PASSWORD}@warehouse:5432/dw"
    assert outcome.sections == {"views.orders": {"to": to}, "views.customers": {"to": to}}
    compile(outcome.pipeline, "pipeline", "exec")
    assert outcome.pipeline.count("import headwater") == 1
    assert '@hw.view("orders", key="id")' in outcome.pipeline
    assert 'hw.table("shop.customers")' in outcome.pipeline
    assert any("insert.mode=insert" in note for note in outcome.notes)
    assert any("config provider" in note for note in outcome.notes)


def test_an_elasticsearch_sink_becomes_a_view_of_an_index(tmp_path: Path) -> None:
    settings = {
        "connector.class": "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
        "topics": "orders",
        "connection.url": "https://es:9200,https://es2:9200",
        "connection.username": "u",
        "connection.password": "secretsecret",
    }
    outcome = of(tmp_path, settings)
    assert outcome.sections["views.orders"] == {
        "to": "elasticsearch+https://u:${CONNECTOR_PASSWORD}@es:9200"
    }
    assert any("the first was taken" in note for note in outcome.notes)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", "no connector.class"),
        ("{", "no JSON"),
        ("[1]", "a list"),
        ("[" * 100_000, "no JSON"),
        ('{"name": "x"}', "no connector.class"),
        ("connector.class=com.example.S3SinkConnector", "S3SinkConnector has no counterpart"),
        ("connector.class=x.JdbcSinkConnector", "names no topics"),
        (
            "connector.class=x.JdbcSinkConnector\ntopics=a\nconnection.url=jdbc:oracle:thin:@h",
            "oracle",
        ),
    ],
)
def test_what_cannot_be_taken_is_a_sentence(tmp_path: Path, given: str, why: str) -> None:
    with pytest.raises(NotUnderstood, match=why):
        of(tmp_path, given)


def test_sections_are_added_once_and_nothing_else_is_changed(tmp_path: Path) -> None:
    project = tmp_path / "headwater.toml"
    project.write_text('# mine\n[log]\ndata = "data/log"\n\n[views.other]\nto = "sqlite:x.db"\n')
    before = project.read_text()
    added(of(tmp_path, JDBC), project)
    assert project.read_text().startswith(before)
    assert set(tomllib.loads(project.read_text())["views"]) == {"other", "orders", "customers"}
    with pytest.raises(HeadwaterError, match=r"has a \[views.orders\] already"):
        added(of(tmp_path, JDBC), project)


def test_the_command_shows_first_and_writes_when_told(tmp_path: Path) -> None:
    path, project = tmp_path / "connector.json", tmp_path / "headwater.toml"
    path.write_text(json.dumps(POSTGRES))
    project.write_text('[log]\ndata = "data/log"\n')
    shown = fork_server.headwater("import", str(path))
    assert shown.returncode == 0, shown.stderr
    assert "[capture.inventory]" in shown.stdout
    assert "hunter2" not in shown.stdout
    assert "capture" not in project.read_text()
    ran = fork_server.headwater("import", str(path), "--write", "--file", str(project))
    assert ran.returncode == 0, ran.stderr
    assert "inventory" in tomllib.loads(project.read_text())["capture"]
    refused = fork_server.headwater("import", str(tmp_path / "nothing.json"))
    assert refused.returncode != 0
    assert "Traceback" not in refused.stderr


def test_what_a_connector_names_stays_a_text_in_the_pipeline(tmp_path: Path) -> None:
    evil = 'x"+__import__("os").system("id")+"'
    pipeline = of(
        tmp_path, JDBC.replace("=id\n", f"={evil}\n").replace("shop.orders", f"shop.{evil}")
    ).pipeline
    calls = [each for each in ast.walk(ast.parse(pipeline)) if isinstance(each, ast.Call)]
    assert {ast.unparse(each.func) for each in calls} == {"hw.view", "hw.table"}
    assert evil in [
        each.value for each in ast.walk(ast.parse(pipeline)) if isinstance(each, ast.Constant)
    ]


@pytest.mark.parametrize("password", ["hunter2", "hun:ter2", "hun@ter2"])
def test_no_password_of_an_address_is_copied_or_shown(tmp_path: Path, password: str) -> None:
    mongodb = {
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        "mongodb.connection.string": f"mongodb://app:{password}@m1,m2/?replicaSet=rs0",
        "topic.prefix": "s",
    }
    outcome = of(tmp_path, mongodb)
    assert (
        outcome.sections["capture.s"]["from"] == "mongodb://app:${S_PASSWORD}@m1,m2/?replicaSet=rs0"
    )
    jdbc = of(tmp_path, JDBC.replace("5432/dw", f"5432/dw?user=x&password={password}&ssl="))
    for each in (outcome, jdbc):
        assert "ter2" not in json.dumps(each.as_json())
    assert "left out: user, password, ssl" in " ".join(jdbc.notes)


@pytest.mark.parametrize(
    "given",
    [
        {**POSTGRES["config"], "connector.class": "x.MySqlConnector", "database.server.id": "one"},
        JDBC.replace("//warehouse", "//[warehouse"),
    ],
)
def test_a_setting_that_cannot_be_read_is_told(tmp_path: Path, given: dict[str, Any] | str) -> None:
    with pytest.raises(NotUnderstood, match=r"is no address|is no number"):
        of(tmp_path, given)


def test_a_file_that_would_be_no_toml_is_left_as_it_is(tmp_path: Path) -> None:
    project = tmp_path / "headwater.toml"
    project.write_text('views = { other = { to = "x" } }\n')
    with pytest.raises(HeadwaterError, match="would be no TOML"):
        added(of(tmp_path, JDBC), project)
    assert project.read_text() == 'views = { other = { to = "x" } }\n'
