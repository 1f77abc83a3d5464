"""Debezium's embedded engine as a child process: jars from Maven, one small Java class.

Called by the benchmark and by the comparison of envelopes. The engine hands over batches; the class
sends each record to the broker with `acks=all` and tells the engine only when all of a batch have been
acknowledged, which is what Debezium Server and Kafka Connect do.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from pathlib import Path

from headwater.testing.kafka_jars import MissingServer, find_program

VERSION = "3.5.0.Final"
ENGINE = Path(__file__).with_name("Engine.java")
_MODULES = (
    "debezium-api",
    "debezium-embedded",
    "debezium-connector-postgres",
    "debezium-connector-mariadb",
)
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>headwater</groupId><artifactId>debezium-jars</artifactId><version>1</version>
<dependencies>
{dependencies}
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
</dependencies>
</project>
"""


def jars() -> Path:
    """The folder with Debezium's jars and the compiled engine, made once."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headwater"
    folder = cache / f"debezium-{VERSION}"
    maven = find_program("mvn", "maven")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"debezium-{VERSION}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _resolve(maven, cache, folder)
        _compile(folder)
    return folder


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


def _resolve(maven: str, cache: Path, folder: Path) -> None:
    dependencies = "\n".join(
        f"<dependency><groupId>io.debezium</groupId><artifactId>{module}</artifactId>"
        f"<version>{VERSION}</version></dependency>"
        for module in _MODULES
    )
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        pom, staging = Path(scratch) / "pom.xml", Path(scratch) / "jars"
        pom.write_text(_POM.format(dependencies=dependencies))
        goal = "dependency:copy-dependencies"
        command = [maven, "-B", "-q", "-f", str(pom), goal, f"-DoutputDirectory={staging}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()[-800:]
            raise MissingServer(f"Maven could not resolve Debezium {VERSION}: {said}")
        staging.rename(folder)


def _compile(folder: Path) -> None:
    compiled = folder / "Engine.class"
    if compiled.exists() and compiled.stat().st_mtime > ENGINE.stat().st_mtime:
        return
    compiler = find_program("javac", "openjdk-17-jdk-headless")
    command = [compiler, "-cp", f"{folder}/*", "-d", str(folder), str(ENGINE)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise MissingServer(f"javac could not compile {ENGINE.name}: {done.stderr[-800:]}")
