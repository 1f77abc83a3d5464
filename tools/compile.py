"""Compile the hot modules of `headwater.record` with mypyc: `python tools/compile.py [--must]`.

Called by `make setup`, and by the build of a compiled wheel (`tools/wheel.py`). Needs mypy, setuptools, a C
compiler and Python's headers. Where one of them is missing it says so and is done: the same files then run as
they are (see `headwater/record/forms.py`). With --must that is an error.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGE = SOURCE / "headwater" / "record"
sys.path.insert(0, str(SOURCE))


def main(must: bool) -> int:
    reason = missing()
    if reason is None:
        made = build()
        print(f"compiled {', '.join(sorted(each.name for each in made))}")
        return 0
    print(f"not compiled, so the same files run as plain Python: {reason}")
    return int(must)


def missing() -> str | None:
    """What there is not."""
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"no C compiler ({compiler})"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "no headers of Python (Debian: python3-dev)"
    return next((f"no {each}" for each in ("mypyc", "setuptools") if find_spec(each) is None), None)


def build() -> list[Path]:
    """The extension modules; those of former sources go."""
    from headwater.record import forms

    folder = PACKAGE / "compiled" / forms.fingerprint(PACKAGE)
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    with tempfile.TemporaryDirectory(prefix="headwater-compile-") as work:
        for each in _built(forms.MODULES, forms.LIBRARY, Path(work)):
            beside = shutil.copyfile(each, folder / f"{each.name}.new")
            made.append(beside.replace(folder / each.name))
    for other in folder.parent.iterdir():
        if other != folder:
            shutil.rmtree(other)
    return made


def _built(modules: Iterable[str], library: str, work: Path) -> list[Path]:
    from mypyc.build import mypycify
    from setuptools import Distribution

    # In a copy, with nothing of the project around it: mypy would read all that it can find.
    package = work / "headwater" / "record"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("compiled", "__pycache__"))
    (work / "headwater" / "__init__.py").touch()
    with contextlib.chdir(work), contextlib.redirect_stdout(io.StringIO()):
        extensions = mypycify(
            [f"headwater/record/{name}.py" for name in modules],
            group_name=f"headwater.record.{library}",
            debug_level="0",
        )
        command = Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = "lib", "temp"
        command.ensure_finalized()
        command.run()
    return sorted((work / "lib" / "headwater" / "record").iterdir())


if __name__ == "__main__":
    sys.exit(main("--must" in sys.argv[1:]))
