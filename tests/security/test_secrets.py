"""No password is anywhere: not in the data folder's bytes, not in the log, not in an answer."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.console.sessions import Sessions, Token
from headwater.edges.tokens import Tokens
from headwater.project.roles import Role
from headwater.secrets import LOOK_S, MissingSecret, Secrets
from tests.compat.wire import connected
from tests.security import servers
from tests.security.conftest import new_user
from tests.security.scram_client import log_in
from tests.security.servers import PLAIN_PASSWORD, PLAIN_USER, Certificates

SECRET = "xyzzy-plugh-4711"


def test_passwords_are_nowhere_in_files_or_logs(certificates: Certificates, tmp_path: Path):
    given = "given-on-stdin-0815"
    data = tmp_path / "data"
    done = _headwater("users", "add", "first", "--data", str(data), input=f"{given}\n")
    assert (done.returncode, done.stdout) == (0, "first can log in now\n")
    assert data.stat().st_mode & 0o077 == 0
    with servers.headwater(certificates, tmp_path) as server:
        user = new_user(server, SECRET)
        tries = [
            ("SCRAM-SHA-256", "first", given),
            ("SCRAM-SHA-512", user, SECRET),
            ("PLAIN", user, SECRET),
            ("PLAIN", PLAIN_USER, PLAIN_PASSWORD),
            ("PLAIN", PLAIN_USER, SECRET),
            ("SCRAM-SHA-256", user, PLAIN_PASSWORD),
        ]
        outcomes = []
        for mechanism, who, password in tries:
            with connected(server.listeners["SASL_PLAINTEXT"]) as wire:
                outcomes.append(int(log_in(wire, mechanism, who, password).error_code))
        assert outcomes == [0, 0, 0, 0, 58, 58]
        with connected(server.bootstrap) as wire:
            broker = {"resource_type": 4, "resource_name": "1"}
            shown = wire.ask("describe_configs", 4, resources=[broker], include_synonyms=True)
        assert SECRET not in str(shown) and PLAIN_PASSWORD not in str(shown)
        log = server.log
    searched = 0
    for path in (log, *data.rglob("*")):
        with contextlib.suppress(IsADirectoryError):
            found = path.read_bytes()
            searched += len(found)
            for secret in (SECRET, given, PLAIN_PASSWORD):
                assert secret.encode() not in found, path
    assert searched > 1000
    assert (data / "__headwater_catalogue-0").stat().st_mode & 0o077 == 0


def test_a_password_is_not_a_word_of_the_command(tmp_path: Path):
    done = _headwater("users", "add", "ann", "secret", "--data", str(tmp_path / "d"))
    assert done.returncode == 2
    done = _headwater("users", "add", "ann", "--data", str(tmp_path / "d"), input="")
    assert done.returncode == 1
    assert "no password was given" in done.stderr


def test_users_are_listed_and_removed_on_a_stopped_brokers_folder(tmp_path: Path):
    data = str(tmp_path / "d")
    _headwater("users", "add", "ann", "--mechanism", "SCRAM-SHA-512", "--data", data, input="x\n")
    listed = _headwater("users", "list", "--data", data)
    assert "ann   SCRAM-SHA-512" in listed.stdout
    assert _headwater("users", "remove", "ann", "--data", data).returncode == 0
    assert "No users" in _headwater("users", "list", "--data", data).stdout
    gone = _headwater("users", "remove", "ann", "--data", data)
    assert (gone.returncode, gone.stdout) == (1, "")


def _headwater(*words: str, input: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headwater", *words]
    return subprocess.run(command, input=input, capture_output=True, text=True, timeout=100)


def test_secrets_in_files_are_read_again_when_they_change_and_stay_when_they_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file, now = tmp_path / "token", [0.0]
    file.write_text("first\n")
    monkeypatch.setenv("OTHER", "second")
    found = Secrets([f"file:{file}", "${OTHER}"], clock=lambda: now[0])
    file.write_text("third, and longer\n")
    assert found.now() == ("first", "second")  # nobody has looked since
    now[0] += LOOK_S
    assert tuple(found) == ("third, and longer", "second")
    file.write_text("")
    now[0] += LOOK_S
    assert found.now() == ("third, and longer", "second")
    file.unlink()
    now[0] += LOOK_S
    assert found.now() == ("third, and longer", "second")
    with pytest.raises(MissingSecret):
        Secrets([f"file:{file}"])


def test_a_token_in_a_file_is_replaced_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headwater.secrets.LOOK_S", 0.0)
    file = tmp_path / "token"
    file.write_text("old" * 10)
    tokens = Tokens({"shop": {"secret": f"file:{file}", "read": ["*"]}})
    sessions = Sessions([Token(Role.READER, Secrets([f"file:{file}"]))])
    cookie = sessions.cookie_for("old" * 10, 1.0)
    assert tokens.find("old" * 10) is not None and sessions.find(cookie, 2.0)
    file.write_text("newer" * 10)
    assert tokens.find("newer" * 10) is not None and tokens.find("old" * 10) is None
    assert sessions.find(cookie, 2.0) is None  # a new token logs everybody out
    assert sessions.cookie_for("newer" * 10, 3.0) is not None
