"""mongo-java-server, the stand-in for a mongod that build machines can have: Maven resolves it, Java's
source launcher runs it. It does inserts, deletes and resume tokens of change streams on one collection;
its update events are not those of a real server, so no test here relies on them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from headwater.pipelines.maven import fetched
from headwater.testing.kafka_jars import QUICK_JVM, find_program

VERSION = "1.47.0"
NAME = f"mongo-java-server-{VERSION}"
_JARS = [("de.bwaldvogel", "mongo-java-server", VERSION)]
_MAIN = """
import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.ServerVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;

public class Server {
  public static void main(String[] args) throws Exception {
    MemoryBackend backend = new MemoryBackend();
    backend.version(ServerVersion.MONGO_5_0);
    backend.enableOplog();
    System.out.println(new MongoServer(backend).bind().getPort());
    System.in.read();
    System.exit(0);
  }
}
"""


class StandIn:
    """A server that ends when it is told to, or with this process."""

    def __init__(self, folder: Path) -> None:
        java, jars = find_program("java", "openjdk-17-jdk-headless"), fetched(NAME, _JARS)
        source = folder / "Server.java"
        source.write_text(_MAIN)
        self._process = subprocess.Popen(
            [java, *QUICK_JVM, "-cp", f"{jars}/*", str(source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
