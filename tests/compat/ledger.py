"""Writes LEDGER.md from the tests themselves: `python -m tests.compat.ledger`. What is prose in it stays.

The table of files comes from their docstrings, the known differences from the marks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
LEDGER = HERE / "LEDGER.md"
BEGIN, END = "## What is compared\n", "## Not asserted"


def written() -> str:
    """The ledger as it must be."""
    text = LEDGER.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    return f"{before}{BEGIN}\n{compared()}\n## Known differences\n\n{differences()}\n{END}{after}"


def compared() -> str:
    rows = [
        f"| `{path.stem}` | {len(tests)} | {sentence} |\n"
        for path, sentence, tests in _files()
        if tests
    ]
    return "| file | tests | what |\n|---|---|---|\n" + "".join(rows)


def differences() -> str:
    rows = [
        f"| `{test.name}` | {server} | {reason} |\n"
        for _, _, tests in _files()
        for test in tests
        for server, reason in _marks(test)
    ]
    return "| test | fails on | because |\n|---|---|---|\n" + "".join(rows)


def _files() -> Iterator[tuple[Path, str, list[ast.FunctionDef | ast.AsyncFunctionDef]]]:
    for path in sorted(HERE.glob("test_*.py")):
        tree = ast.parse(path.read_text())
        said = (ast.get_docstring(tree) or "").partition("\n\n")[0]
        tests = [
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("test_")
        ]
        yield path, " ".join(said.split()), tests


def _marks(test: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, str]]:
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("known_difference"):
            given = [ast.literal_eval(each) for each in mark.args]
            given += [ast.literal_eval(each.value) for each in mark.keywords]
            server, reason = given
            yield str(server), str(reason)


if __name__ == "__main__":
    LEDGER.write_text(written())
