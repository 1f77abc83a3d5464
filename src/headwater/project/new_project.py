"""`headwater init`: write the files of a new project.

They stand in `template/` as they will stand in the project, so that they can be read, linted and run.
"""

from __future__ import annotations

import re
from pathlib import Path

from headwater.errors import HeadwaterError

TEMPLATE = Path(__file__).parent / "template"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")
_RENAMED = {"gitignore": ".gitignore"}  # by its own name it would apply to us


class CannotStart(HeadwaterError):
    """There is no place for a new project."""


def start_project(parent: Path, name: str) -> list[Path]:
    """Make the folder `name` with a project in it; the files that were written."""
    if not _NAME.fullmatch(name):
        raise CannotStart(
            f"{name!r} cannot be the name of a project",
            hint="use letters, digits, dot, dash and underscore, as in: headwater init shop",
        )
    folder = parent / name
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CannotStart(f"{folder} is there already", hint="choose another name, or empty it")
    written = []
    for source in sorted(path for path in TEMPLATE.rglob("*") if path.is_file()):
        if "__pycache__" in source.parts:
            continue
        relative = source.relative_to(TEMPLATE)
        target = folder / relative.with_name(_RENAMED.get(relative.name, relative.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text().replace("{name}", name))
        written.append(target)
    return written
