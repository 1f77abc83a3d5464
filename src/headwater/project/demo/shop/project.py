"""The demo's project: headwater.toml and pipelines as a person would write them, in a folder of its own.

Called by `job`. `headwater up` runs it, and could run it again by hand where the folder is kept.

`headwater up` as a child process that can be watched, waited for and stopped.

What the parts are doing is read where `headwater status` reads it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from headwater.project import record
from headwater.project.demo.shop import tour
from headwater.project.demo.shop.database import DATABASE_VARIABLE, TABLES
from headwater.project.demo.summary import DemoFailed
from headwater.project.file import FILE
from headwater.project.parent_death import ends_with_parent
from headwater.project.ports import free_port

PIPELINES = Path(__file__).with_name("pipelines.py")

_TEXT = """\
# The project of `headwater demo`: a shop, captured, with views that follow it.

[log]
data = "data/log"
listen = "{listen}"

[spark]
master = "local[2]"
conf = {{ "spark.driver.memory" = "1g", "spark.sql.shuffle.partitions" = 1 }}   # small data, two cores

[capture.shop]
from = "{source}"
tables = [{tables}]
partitions = 1        # windows count on time that goes forward: the order is that of the database
{slot}
[views.order_list]
to = "{cache}"
[views.order_search]
to = "search:data/order_search"
[views.sessions]
to = "duckdb:data/sessions.duckdb"
[views.revenue_per_minute]
to = "duckdb:data/revenue.duckdb"
"""
_CONSOLE = """
[console]
listen = "{console}"
"""


@dataclass(frozen=True)
class ShopProject:
    """Where everything is; addresses of views as seen from anywhere, not only from the folder."""

    folder: Path
    bootstrap: str
    cache: str
    console: str | None = None

    @property
    def views(self) -> dict[str, str]:
        data = self.folder / "data"
        scheme, _, rest = self.cache.partition(":")
        cache = self.cache if scheme == "redis" else f"{scheme}:{self.folder / rest}"
        return {
            "order_list": cache,
            "order_search": f"search:{data / 'order_search'}",
            "sessions": f"duckdb:{data / 'sessions.duckdb'}",
            "revenue_per_minute": f"duckdb:{data / 'revenue.duckdb'}",
        }


def write_project(folder: Path, *, cache: str, slot: str | None = None) -> ShopProject:
    """Make the folder of the project; its database is made by somebody else.

    `slot`: of a PostgreSQL whose address is in the environment; without one, a SQLite file.
    """
    (folder / "pipelines").mkdir(parents=True)
    shutil.copy(PIPELINES, folder / "pipelines" / "shop.py")
    listen = f"127.0.0.1:{free_port()}"
    text = _TEXT.format(
        listen=listen,
        source=f"postgresql://${{{DATABASE_VARIABLE}}}" if slot else "sqlite:shop.db",
        tables=", ".join(f'"{table}"' for table in TABLES),
        cache=cache,
        slot=f'slot = "{slot}"\n' if slot else "",
    )
    console = None
    if has_console():
        console = f"127.0.0.1:{free_port()}"
        text += _CONSOLE.format(console=console)
    (folder / FILE).write_text(text)
    tour.mark(folder, "postgresql" if slot else "sqlite")
    return ShopProject(folder, listen, cache, console)


def has_console() -> bool:
    """Whether what the console needs is installed."""
    return find_spec("nicegui") is not None


def missing_libraries() -> str | None:
    """What to install before the shop can open; None where all of it is there."""
    needed = {"pyspark": "spark", "duckdb": "warehouse", "tantivy": "search"}
    extras = [extra for name, extra in needed.items() if find_spec(name) is None]
    return f"pip install 'headwater[{','.join(extras)}]'" if extras else None


_QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"}
"""A Java that lives for a minute spends more on compiling well than it ever gets back."""
STOP_S = 240.0
LOOK_S = 0.2
"""To look at a view may mean to open its store, which the project wants for itself."""


class Up:
    """A supervisor in a session of its own, so that Ctrl-C reaches only the demo."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self._environment = {**_QUICK_JAVA, **os.environ, **(environment or {})}
        self._output = folder / "up.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Up:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                ends_with_parent(sys.executable, "-m", "headwater", "up"),
                cwd=self.folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill(self) -> None:
        """kill -9 of the supervisor; its parts end with it."""
        process, self._process = self._process, None
        assert process is not None, "not started"
        process.kill()
        process.wait()

    def stop(self) -> int | None:
        """Ctrl-C, as a person would; the exit code, or None if it was not running."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(signal.SIGINT)
        try:
            return process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise self._failed(f"headwater up did not stop within {STOP_S:.0f} s") from None

    def parts(self) -> dict[str, record.Entry]:
        """The parts by name, as they are now."""
        _, entries = record.read(self.folder / record.FOLDER)
        return {entry.name: entry for entry in entries}

    def kill_part(self, name: str) -> None:
        """kill -9 of one part; the supervisor finds out by itself."""
        entry = self.parts().get(name)
        if entry is not None and entry.pid is not None:
            os.kill(entry.pid, signal.SIGKILL)

    def until(
        self,
        condition: Callable[[], bool],
        what: str,
        timeout_s: float,
        tell: Callable[[str], None],
    ) -> None:
        """Wait for something that the project will do; `tell` hears in between how its parts are."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self._process is not None and self._process.poll() is not None:
                raise self._failed(f"headwater up ended with code {self._process.returncode}")
            if time.monotonic() > deadline:
                raise self._failed(f"waited {timeout_s:.0f} s in vain for {what}")
            tell(self._state())
            time.sleep(LOOK_S)

    def _state(self) -> str:
        busy = [f"{p.name} {p.state}" for p in self.parts().values() if p.state != "running"]
        return ", ".join(busy) or "all parts run"

    def _failed(self, sentence: str) -> DemoFailed:
        lines = self._output.read_text(errors="replace").strip().splitlines()
        said = f"; its last words: {' / '.join(lines[-3:])}" if lines else ""
        return DemoFailed(
            sentence + said, hint="keep the folder and look: headwater demo --data DIR"
        )
