"""One server that follows another, for tests that have two."""

from __future__ import annotations

from typing import Any

from tests.capture.postgres.running import eventually


def follow(replica: Any, primary: Any) -> None:
    """Start replication, from the primary's first transaction."""
    if replica.scheme == "mysql":
        replica.stop()
        (replica.folder / "data" / "auto.cnf").unlink(missing_ok=True)  # its name is to be its own
        replica.options.append("--server-id=2")
        replica.start()
        replica.execute(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_USER='root', "
            f"SOURCE_PORT={primary.port}, SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1",
            "START REPLICA",
        )
    else:
        replica.stop()
        replica.options += ["--server-id=2", "--log-slave-updates=1"]
        replica.start()
        replica.execute(
            "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_USER='root', "
            f"MASTER_PORT={primary.port}, MASTER_USE_GTID=slave_pos, MASTER_SSL_VERIFY_SERVER_CERT=0",
            "START SLAVE",
        )


def stop_following(replica: Any) -> None:
    replica.execute("STOP REPLICA" if replica.scheme == "mysql" else "STOP SLAVE")


def go_on_following(replica: Any) -> None:
    replica.execute("START REPLICA" if replica.scheme == "mysql" else "START SLAVE")


def level(primary: Any, replica: Any) -> None:
    wanted = primary.gtids()
    eventually("the replica has what the primary has", lambda: replica.gtids() == wanted)
