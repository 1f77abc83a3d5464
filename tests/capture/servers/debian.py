"""Packages of another Debian, with their libraries, in a root of their own; the machine is not changed.

apt runs with a configuration of its own: lists, cache and state are in a temporary folder, the one source
is that release at the address where the machine's own sources find Debian.
"""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from pathlib import Path

_CONFIGURATION = """
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "-";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
"""
_ONLY_NEEDED = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks")]
_ONLY_NEEDED += ["--no-replaces", "--no-enhances"]


def fetch_sid(into: Path, package: str, without: tuple[str, ...]) -> None:
    """The package and all that it depends on, but for names that begin so, unpacked."""
    fetch(into, "sid", package, without)


def fetch(into: Path, release: str, package: str, without: tuple[str, ...]) -> None:
    """The same of any release."""
    with tempfile.TemporaryDirectory(prefix="headwater-apt-") as scratch:
        folder = Path(scratch)
        apt = _Apt(folder, release)
        apt.run("apt-get", "-qq", "update")
        told = apt.run("apt-cache", "depends", "--recurse", *_ONLY_NEEDED, package)
        # Names at the beginning of a line; what is virtual stands in angle brackets.
        names = {line for line in told.splitlines() if line[:1] not in ("", " ", "<", "|")}
        wanted = sorted(name for name in names if not name.startswith(without))
        apt.run("apt-get", "-qq", "download", *wanted)
        for archive in sorted(folder.glob("*.deb")):
            apt.run("dpkg", "-x", str(archive), str(into))


def fetch_only(into: Path, release: str, *packages: str) -> None:
    """These packages and no others, unpacked."""
    with tempfile.TemporaryDirectory(prefix="headwater-apt-") as scratch:
        apt = _Apt(Path(scratch), release)
        apt.run("apt-get", "-qq", "update")
        apt.run("apt-get", "-qq", "download", *packages)
        for archive in sorted(Path(scratch).glob("*.deb")):
            apt.run("dpkg", "-x", str(archive), str(into))


class _Apt:
    def __init__(self, folder: Path, release: str) -> None:
        self._folder = folder
        address = self._address()
        for part in ("state/lists/partial", "cache/archives/partial"):
            (folder / part).mkdir(parents=True)
        (folder / "status").touch()
        (folder / "sources.list").write_text(f"deb {address} {release} main\n")
        (folder / "apt.conf").write_text(_CONFIGURATION.format(folder=folder))
        self._environment = {**os.environ, "APT_CONFIG": str(folder / "apt.conf"), "LC_ALL": "C"}

    def run(self, *words: str) -> str:
        done = subprocess.run(
            words, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
        return done.stdout

    def _address(self) -> str:
        shown = "$(RELEASE) $(REPO_URI)"
        asked = ["apt-get", "indextargets", "--format", shown, "Created-By: Packages"]
        found = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout
        release = platform.freedesktop_os_release().get("VERSION_CODENAME", "stable")
        places = [line.split()[1] for line in found.splitlines() if line.split()[0] == release]
        if not places:
            raise OSError("this machine's package sources name no archive of Debian")
        return places[0]
