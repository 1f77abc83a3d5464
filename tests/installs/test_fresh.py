"""Each extra in an environment that has nothing else: its smallest job runs there (`make soak`).

Downloads what the extra brings, in the versions of constraints.txt. The half that needs no download, what
is imported by whom, is in `test_extras` and runs always.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

from tests.installs.smallest_job import JOBS

ROOT = Path(__file__).parents[2]
JOB = Path(__file__).with_name("smallest_job.py")
PUT_TOGETHER = {"all", "dev", "site"}


def run(*words: str | Path, cwd: Path) -> str:
    ended = subprocess.run(
        list(map(str, words)), cwd=cwd, capture_output=True, text=True, timeout=1500, check=False
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as users get it."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet")
    run(*pip, "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (found,) = folder.glob("headwater-*.whl")
    return found


def test_every_extra_has_a_smallest_job() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = settings["project"]["optional-dependencies"].keys() - PUT_TOGETHER
    assert JOBS.keys() - {""} == extras


def test_the_page_on_installing_names_every_extra() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE)
    named = {extra for row in rows for extra in re.findall(r"`(\w+)`", row)}
    assert named == JOBS.keys() - {""} | {"all"}


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("extra", JOBS, ids=lambda name: name or "core")
def test_the_smallest_job_runs_where_nothing_else_is_installed(
    extra: str, wheel: Path, tmp_path: Path
) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    run(*pip, "--constraint", ROOT / "constraints.txt", wanted, cwd=tmp_path)
    assert run(python, JOB, extra, cwd=tmp_path).splitlines()[-1] == "done"
