"""The packages without which a part of a project cannot start, and the extra that brings each.

`doctor` tells what is missing; the supervisor does not start a part again and again that could only fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec

from headwater.errors import HeadwaterError, missing_package

Needs = Mapping[str, str]
"""By the name under which it is imported, the extra of headwater."""
PIPELINES: Needs = dict.fromkeys(("pyspark", "pyarrow", "numba", "pandas"), "spark")
REMOTE: Needs = dict.fromkeys(("grpc", "grpc_status"), "connect")
CONSOLE: Needs = dict.fromkeys(("nicegui", "uvicorn", "starlette"), "console")
EDGES: Needs = dict.fromkeys(
    ("fastapi", "uvicorn", "httptools", "msgspec", "orjson", "jsonschema_rs"), "edges"
)
SCHEMAS: Needs = dict.fromkeys(
    ("fastavro", "grpc_tools", "jsonschema", "starlette", "uvicorn", "httptools"), "schemas"
)
_STORES: Mapping[str, Needs] = {
    "postgres": {"psycopg": "postgres"},
    "postgresql": {"psycopg": "postgres"},
    "mysql": {"pymysql": "mysql"},
    "mariadb": {"pymysql": "mysql"},
    "mongodb": {"pymongo": "mongodb"},
    "redis": {"redis": "redis"},
    "search": {"tantivy": "search"},
    "duckdb": {"duckdb": "warehouse"},
    "delta": {"deltalake": "warehouse"},
}
"""By the scheme of an address, of a database or of a view."""

_OF_COMMANDS = ("console", "edges", "events", "schemas")
"""Commands that have an extra of their own name, and more to import than the first that is missing."""


class NotInstalled(HeadwaterError):
    """A package that a command imports is of an extra that is not there."""


def uninstalled(error: ModuleNotFoundError, command: str) -> NotInstalled:
    """What to say of it; raises `error` where a module of our own is missing."""
    package = missing_package(error).partition(".")[0]
    known = {**EDGES, **SCHEMAS, **CONSOLE, **REMOTE, **PIPELINES, "msgspec": "events"}
    for needs in _STORES.values():
        known.update(needs)
    extra = command if command in _OF_COMMANDS else known.get(package)
    brings = package if extra is None else f"'headwater[{extra}]'"
    return NotInstalled(f"the package {package} is not installed", hint=f"pip install {brings}")


def of_stores(addresses: Iterable[object]) -> Needs:
    """What reading or writing those databases needs."""
    found: dict[str, str] = {}
    for address in addresses:
        found.update(_STORES.get(str(address).partition(":")[0].partition("+")[0], {}))
    return found


def lacking(needs: Needs) -> tuple[str, str] | None:
    """A sentence and the command that mends it; None where everything is there."""
    missing = sorted(name for name in needs if find_spec(name) is None)
    if not missing:
        return None
    extras = ",".join(sorted({needs[name] for name in missing}))
    several = "packages" if len(missing) > 1 else "package"
    return f"needs the {several} {', '.join(missing)}", f"pip install 'headwater[{extras}]'"
