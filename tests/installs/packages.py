"""Installed packages for tests: a module, and the dist-info folder by which Python knows what it offers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(
    folder: Path, name: str, modules: Mapping[str, str], offers: Mapping[str, Mapping[str, str]]
) -> Path:
    """As pip leaves it: `modules` by name to their text, `offers` by group to entry points."""
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text, encoding="utf-8")
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in named.items())
            for group, named in offers.items()
        )
    )
    return folder
