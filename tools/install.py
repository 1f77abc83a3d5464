"""Install this project with some extras where this runs: `.venv/bin/python tools/install.py EXTRAS`.

Called by make, in a new environment, so it needs nothing but Python. The versions are those of
constraints.txt. uv does it in a fraction of pip's time: the one on the PATH, or one from the package index
where that is quickly had; wherever uv cannot do it, pip does. Large downloads are named while they run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input")
UV_WAIT_S = 60
"""Whoever waits longer than this for uv itself is not helped by it."""
_DOWNLOAD = re.compile(r"^\s*Downloading (\S+) \(([\d.]+) ?([kMG])i?B\)")
_LARGE = {"M": 10.0, "G": 0.0}


def main(extras: str) -> int:
    began = time.monotonic()
    wanted = ("install", "-c", "constraints.txt", "-e", f".[{extras}]")
    uv = _uv()
    done = 1
    if uv is not None:
        done, said = _shown([uv, "pip", *wanted, "--python", sys.executable])
        if done != 0:
            print(f"    uv could not, so pip does it: {_last(said)}", flush=True)
    if done != 0:
        done, said = _shown([*PIP, *wanted])
    if done != 0:
        print(said, file=sys.stderr)
        return done
    print(f"    {'uv' if uv else 'pip'}, {time.monotonic() - began:.0f} s", flush=True)
    return 0


def _uv() -> str | None:
    """The program, where it is there or can be had; pip's own index and certificates are its too."""
    if os.environ.get("HEADWATER_INSTALLER") == "pip":
        return None
    _hand_over("index-url", "UV_DEFAULT_INDEX")
    _hand_over("cert", "SSL_CERT_FILE")
    beside = Path(sys.executable).with_name("uv")
    found = shutil.which("uv") or (str(beside) if beside.exists() else None)
    if found is not None:
        return found
    ask = [*PIP, "install", "--quiet", "-c", "constraints.txt", "--only-binary", "uv", "uv"]
    try:
        done = subprocess.run(ask, cwd=ROOT, capture_output=True, timeout=UV_WAIT_S, check=False)
    except subprocess.TimeoutExpired:
        return None
    return str(beside) if done.returncode == 0 and beside.exists() else None


def _hand_over(name: str, variable: str) -> None:
    """uv does not read pip's settings."""
    for section in ("global", "install"):
        asked = [*PIP, "config", "get", f"{section}.{name}"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip():
            os.environ.setdefault(variable, done.stdout.strip())


def _shown(command: list[str]) -> tuple[int, str]:
    """Run it; its exit code, and all that it said."""
    said: list[str] = []
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line)
            for each in large(line):
                print(f"    {each}", flush=True)
    return process.returncode, "".join(said)


def large(line: str) -> Iterator[str]:
    """What a person may have to wait for, of a line of pip or uv."""
    found = _DOWNLOAD.match(line)
    if found and float(found[2]) >= _LARGE.get(found[3], float("inf")):
        yield f"downloading {found[1].split('/')[-1]}, {found[2]} {found[3]}B"


def _last(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
