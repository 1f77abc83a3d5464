"""The demo's project: headwater.toml and pipelines as a person would write them, in a folder of its own.

Called by `job`. `headwater up` runs it, and could run it again by hand where the folder is kept.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from headwater.project.demo.shop.database import TABLES
from headwater.project.file import FILE
from headwater.project.ports import free_port

DATABASE_VARIABLE = "HEADWATER_DEMO_DATABASE"
"""Holds the address of a PostgreSQL behind its scheme: a password does not belong into a file."""
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
    return ShopProject(folder, listen, cache, console)


def has_console() -> bool:
    """Whether what the console needs is installed."""
    return find_spec("nicegui") is not None


def missing_libraries() -> str | None:
    """What to install before the shop can open; None where all of it is there."""
    needed = {"pyspark": "spark", "duckdb": "warehouse", "tantivy": "search"}
    extras = [extra for name, extra in needed.items() if find_spec(name) is None]
    return f"pip install 'headwater[{','.join(extras)}]'" if extras else None
