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
AVRO_ENGINE = Path(__file__).with_name("AvroEngine.java")
_AVRO_JARS = (
    ("io.apicurio", "apicurio-registry-utils-converter", "2.5.11.Final"),
    ("org.apache.avro", "avro", "1.11.4"),
)
_ENGINE = (
    ("io.debezium", "debezium-api", VERSION),
    ("io.debezium", "debezium-embedded", VERSION),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
_CONNECTORS = {
    f"debezium-{VERSION}": ("postgres", "mariadb", "mysql"),
    f"debezium-mongodb-{VERSION}": ("mongodb",),
}


def jars(connector: str = "postgres") -> Path:
    """The folder with Debezium's jars and the compiled engine, made once."""
    name, together = next(one for one in _CONNECTORS.items() if connector in one[1])
    own = [("io.debezium", f"debezium-connector-{each}", VERSION) for each in together]
    return built(name, (*_ENGINE, *own), ENGINE)


def avro_jars() -> Path:
    """The folder with what makes Avro of its records, and the engine that sends it."""
    return built("connect-avro-2.5.11.Final", _AVRO_JARS, AVRO_ENGINE, beside=jars())


def start(
    properties: dict[str, str], bootstrap: str, log: Path, registry: str | None = None
) -> subprocess.Popen[bytes]:
    """The engine, with these settings, sending to that broker until it is stopped; with a registry, Avro."""
    file = log.with_suffix(".properties")
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    folder = jars("mongodb" if ".mongodb." in properties["connector.class"] else "postgres")
    command = [
        find_program("java", "openjdk-17-jre-headless"),
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        f"{folder}:{folder}/*" if registry is None else f"{avro_jars()}:{avro_jars()}/*:{folder}/*",
        "Engine" if registry is None else "AvroEngine",
        str(file),
        bootstrap,
        *(() if registry is None else (registry,)),
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


def mysql_properties(
    name: str, port: int, database: str, tables: str, folder: Path, **more: str
) -> dict[str, str]:
    """The same for MySQL."""
    return {
        **mariadb_properties(name, port, database, tables, folder, **more),
        "connector.class": "io.debezium.connector.mysql.MySqlConnector",
        "database.allowPublicKeyRetrieval": "true",
    }


def mongodb_properties(
    name: str, port: int, database: str, collections: str, folder: Path, **more: str
) -> dict[str, str]:
    """The same for MongoDB, a replica set of one member."""
    return {
        "name": name,
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(folder / f"{name}.offsets"),
        "offset.flush.interval.ms": "1000",
        "mongodb.connection.string": f"mongodb://127.0.0.1:{port}/?replicaSet=rs0",
        "topic.prefix": name,
        "database.include.list": database,
        "collection.include.list": f"{database}.{collections}",
        "capture.mode": "change_streams_update_full",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        **{key.replace("_", "."): value for key, value in more.items()},
    }
