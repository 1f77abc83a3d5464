"""A real mongod 6.0 for the tests: a replica set of one member, on a free loopback port."""

from __future__ import annotations

import shutil
import subprocess
import time
from typing import Any

import pymongo
import pymongo.errors

from headwater.project.ports import free_port
from tests.capture.servers.builds import (
    MONGOD_6,
    other_user,
    private_folder,
    unpacked,
    within_reach,
)

START_S = 60.0


class Mongod:
    """One server. `lone`: without a replica set."""

    def __init__(self, *, lone: bool = False) -> None:
        self.folder = private_folder("mongod")
        self.port = free_port()
        set_name = [] if lone else ["--replSet", "rs0"]
        self.process: subprocess.Popen[bytes] | None = None
        program = within_reach(unpacked(MONGOD_6), self.folder) / "mongod"
        with (self.folder / "server.out").open("ab") as output:
            self.process = subprocess.Popen(
                [
                    *other_user(), str(program), "--dbpath", str(self.folder), *set_name,
                    "--port", str(self.port), "--bind_ip", "127.0.0.1", "--oplogSize", "64",
                    "--wiredTigerCacheSizeGB", "0.25", "--nounixsocket",
                ],
                cwd=self.folder, stdout=output, stderr=output,
            )  # fmt: skip
        self.client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(self.url("admin"))
        try:
            self._until(lambda: self.client.admin.command("ping"))
            if not lone:
                self._initiate()
        except BaseException:
            self.close()
            raise

    def url(self, database: str) -> str:
        return f"mongodb://127.0.0.1:{self.port}/{database}?directConnection=true"

    def _initiate(self) -> None:
        members = [{"_id": 0, "host": f"127.0.0.1:{self.port}"}]
        self._until(
            lambda: self.client.admin.command("replSetInitiate", {"_id": "rs0", "members": members})
        )
        self._until(lambda: self.client.admin.command("hello")["isWritablePrimary"])

    def _until(self, act: Any) -> None:
        deadline = time.monotonic() + START_S
        while True:
            try:
                if act():
                    return
            except pymongo.errors.PyMongoError as error:
                if getattr(error, "code", None) == 23:  # AlreadyInitialized
                    return
            assert self.process is not None
            said = (self.folder / "server.out").read_text(errors="replace")[-3000:]
            assert self.process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.02)  # the condition is the question above

    def close(self) -> None:
        self.client.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait(START_S)
        shutil.rmtree(self.folder, ignore_errors=True)
