"""A real mongod for the tests, on a free loopback port: a replica set of one member, or one of several."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from typing import Any

import pymongo
import pymongo.errors

from headwater.project.ports import free_port
from tests.capture.servers.builds import (
    MONGOD_6,
    Build,
    other_user,
    private_folder,
    unpacked,
    within_reach,
)

START_S = 100.0


class Mongod:
    """One server. `lone`: without a replica set; `member`: of a set that somebody else initiates."""

    def __init__(
        self, build: Build = MONGOD_6, *, lone: bool = False, member: bool = False
    ) -> None:
        self.folder = private_folder("mongod")
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._set_name = [] if lone else ["--replSet", "rs0"]
        self._programs = within_reach(unpacked(build), self.folder)
        self.client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(self.url("admin"))
        try:
            self.start()
            if not lone and not member:
                self._initiate()
        except BaseException:
            self.close()
            raise

    def url(self, database: str) -> str:
        return f"mongodb://127.0.0.1:{self.port}/{database}?directConnection=true"

    def start(self) -> None:
        data = self.folder / "data"
        if not data.exists():
            data.mkdir()
            if not os.getuid():
                os.chown(data, 65534, 65534)
        with (self.folder / "server.out").open("ab") as output:
            self.process = subprocess.Popen(
                [
                    *other_user(), str(self._programs / "mongod"), "--dbpath", str(data),
                    *self._set_name, "--port", str(self.port), "--bind_ip", "127.0.0.1",
                    "--oplogSize", "64", "--wiredTigerCacheSizeGB", "0.25", "--nounixsocket",
                    "--setParameter", "enableTestCommands=1",
                ],
                cwd=self.folder, stdout=output, stderr=output,
                env={**os.environ, "LD_LIBRARY_PATH": str(self._programs)},
            )  # fmt: skip
        self.until(lambda: self.client.admin.command("ping"))

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(START_S)
            self.process = None

    def restart(self) -> None:
        """After a kill, until it takes writes again."""
        self.start()
        self.until(self.is_primary)

    def stop_applying(self, *, stopped: bool) -> None:
        """Of a secondary: whether it stays where it is."""
        mode = "alwaysOn" if stopped else "off"
        self.client.admin.command("configureFailPoint", "rsSyncApplyStop", mode=mode)

    def is_primary(self) -> bool:
        hello = self.client.admin.command("isMaster")
        return bool(hello.get("ismaster") or hello.get("isWritablePrimary"))

    def _initiate(self) -> None:
        members = [{"_id": 0, "host": f"127.0.0.1:{self.port}"}]
        self.until(
            lambda: self.client.admin.command("replSetInitiate", {"_id": "rs0", "members": members})
        )
        self.until(self.is_primary)

    def until(self, act: Any) -> None:
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
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
