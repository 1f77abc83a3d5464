"""The contract on imports holds for modules named as text, too: such a name is an import that comes later."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from docs.layers import ROOT, rings

SOURCES = ROOT / "src" / "headwater"
NAMED = re.compile(r"""["']headwater\.(\w+)(?:\.\w+)*(?::\w+)?["']""")


def outward(root: Path, order: list[list[str]]) -> Iterator[str]:
    """Texts that name a module of a ring further out, or of another package of the same ring."""
    ring = {package: number for number, packages in enumerate(order) for package in packages}
    for path in sorted(root.glob("*/**/*.py")):
        package = path.relative_to(root).parts[0]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for named in NAMED.findall(line):
                if named in ring and named != package and ring[named] >= ring[package]:
                    yield f"{path.relative_to(root)}:{number}: {line.strip()}"


def test_no_text_names_a_module_further_out() -> None:
    assert list(outward(SOURCES, rings())) == []


def test_such_a_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "views" / "targets").mkdir(parents=True)
    (tmp_path / "log" / "a.py").write_text("x = 'headwater.views.target:Target'\n")
    (tmp_path / "views" / "targets" / "b.py").write_text(
        'import_module("headwater.log.a")\ny = ("headwater.views.c", "headwater.spark")\n'
    )
    found = list(outward(tmp_path, [["log"], ["views", "spark"]]))
    assert [each.split(": ")[0] for each in found] == ["log/a.py:1", "views/targets/b.py:2"]
