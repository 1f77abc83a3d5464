"""Debezium's embedded engine as a child process: jars from Maven, one small Java class.

Called by the benchmark and by the comparison of envelopes. The engine hands over batches; the class
sends each record to the broker with `acks=all` and tells the engine only when all of a batch have been
acknowledged, which is what Debezium Server and Kafka Connect do.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from bench.java_program import built
from headwater.testing.kafka_jars import find_program

VERSION = "3.5.0.Final"
ENGINE = Path(__file__).with_name("Engine.java")
_JARS = (
    ("io.debezium", "debezium-api", VERSION),
    ("io.debezium", "debezium-embedded", VERSION),
    ("io.debezium", "debezium-connector-postgres", VERSION),
    ("io.debezium", "debezium-connector-mariadb", VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)


def jars() -> Path:
    """The folder with Debezium's jars and the compiled engine, made once."""
    return built(f"debezium-{VERSION}", _JARS, ENGINE)


def start(properties: dict[str, str], bootstrap: str, log: Path) -> subprocess.Popen[bytes]:
    """The engine, with these settings, sending to that broker until it is stopped."""
    file = log.with_suffix(".properties")
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    command = [
        find_program("java", "openjdk-17-jre-headless"),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        f"{jars()}:{jars()}/*",
        "Engine",
        str(file),
        bootstrap,
    ]
    with log.open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output)


def postgres_properties(
    name: str, port: int, database: str, tables: str, folder: Path, **more: str
) -> dict[str, str]:
    """Settings that make its envelopes comparable; `more` with _ for ."""
    return {
        "name": name,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(folder / f"{name}.offsets"),
        "offset.flush.interval.ms": "1000",
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "postgres",
        "database.password": "unused",
        "database.dbname": database,
        "topic.prefix": name,
        "table.include.list": tables,
        "plugin.name": "pgoutput",
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "filtered",
        "decimal.handling.mode": "string",
        "interval.handling.mode": "string",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def mariadb_properties(
    name: str, port: int, database: str, tables: str, folder: Path, **more: str
) -> dict[str, str]:
    """The same for MariaDB."""
    return {
        "name": name,
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(folder / f"{name}.offsets"),
        "offset.flush.interval.ms": "1000",
        "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        "schema.history.internal.file.filename": str(folder / f"{name}.history"),
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "root",
        "database.password": "",
        "database.server.id": str(50_000 + port % 10_000),
        "database.include.list": database,
        "topic.prefix": name,
        "table.include.list": tables,
        "include.schema.changes": "false",
        "snapshot.locking.mode": "none",
        "decimal.handling.mode": "string",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        **{key.replace("_", "."): value for key, value in more.items()},
    }
