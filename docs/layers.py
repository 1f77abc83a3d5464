"""The table of rings in ARCHITECTURE.md: the import contract of pyproject.toml, the packages' docstrings.

Called by `generate`; `make lint` holds the code to the contract (import-linter).
"""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- rings: written by `make docs` -->\n", "<!-- end of rings -->"


def rings() -> list[list[str]]:
    """The packages of each ring, innermost first; those of one ring do not import each other."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each["type"] == "layers")
    return [re.findall(r"\w+", layer) for layer in reversed(layers)]


def table() -> str:
    lines = ["| ring | package | holds |", "|---|---|---|"]
    for number, packages in enumerate(rings()):
        lines += [f"| {number} | `{name}/` | {_holds(name)} |" for name in packages]
    return "\n".join(lines) + "\n"


def _holds(package: str) -> str:
    """The first sentence of the package's docstring."""
    text = (ROOT / "src/headwater" / package / "__init__.py").read_text(encoding="utf-8")
    said = (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0]
    first = re.split(r"(?<=\.)\s", " ".join(said.split()))[0]
    return first.removesuffix(".").replace("|", "\\|")


def page() -> str:
    """ARCHITECTURE.md with the table as it should be."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.split(END)[1]}"
