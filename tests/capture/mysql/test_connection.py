"""Passwords, TLS, and more than one domain of GTIDs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pymysql
import pytest

from headwater.capture.errors import Interrupted, SourceRefused
from headwater.capture.mysql.address import Address
from headwater.capture.mysql.connection import Connection, plain
from headwater.testing.certificates import Authority
from tests.capture.mysql.captured import Setting
from tests.capture.mysql.server import MariaDB


def test_a_password_with_odd_letters_and_tls_are_given_in_the_address(
    installed: None, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("server", hosts=["127.0.0.1"])
    server = MariaDB()
    try:
        for name, path in (
            ("ca", authority.certificate),
            ("cert", issued.certificate),
            ("key", issued.key),
        ):
            copied = server.folder / f"{name}.pem"
            shutil.copy(path, copied)
            if not os.getuid():
                os.chown(copied, 65534, 65534)
        server.stop()
        server.options = [
            f"--ssl-{name}={server.folder}/{name}.pem" for name in ("ca", "cert", "key")
        ]
        server.start()
        server.execute(
            "CREATE DATABASE shop",
            "GRANT ALL ON *.* TO odd@'127.0.0.1' IDENTIFIED BY 'p@ss/w:ö%' REQUIRE SSL",
        )
        base = f"mariadb://odd:p%40ss%2Fw%3A%C3%B6%25@127.0.0.1:{server.port}/shop"
        for parameters in (
            "?ssl-mode=required",
            f"?ssl-ca={authority.certificate}",
            f"?ssl-ca={authority.certificate}&ssl-mode=verify-identity",
        ):
            connection = Connection(Address.parse(base + parameters))
            assert connection.execute("SHOW STATUS LIKE 'Ssl_cipher'")[0][1]
            connection.close()
        with pytest.raises(SourceRefused):
            Connection(Address.parse(base))
        with pytest.raises(Interrupted):
            Connection(Address.parse(f"{base}?ssl-mode=verify-identity"))
        setting = Setting(server, "shop1")
        setting.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
        url = base.replace("/shop", "/shop1") + f"?ssl-ca={authority.certificate}"
        config = setting.config()
        object.__setattr__(config, "url", url)
        setting.snapshot(config)
        setting.execute("INSERT INTO t VALUES (1, REPEAT('x', 1024 * 1024)), (2, 'y')")
        setting.stream(config)
        assert [len(after["v"]) for _, _, after in setting.changes("t")] == [1 << 20, 1]
        setting.close()
    finally:
        server.close()


def test_the_password_is_in_no_message(setting: Setting) -> None:
    address = Address.parse("mariadb://u:secret@127.0.0.1:1/db")
    assert "secret" not in repr(address)
    with pytest.raises(Interrupted) as unreachable:
        Connection(address)
    assert "secret" not in str(unreachable.value)


def test_domains_are_followed_side_by_side(own_setting: Setting) -> None:
    setting = own_setting
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    setting.snapshot()
    for n in range(3):
        setting.execute(
            f"INSERT INTO t VALUES ({10 * n})",
            "SET SESSION gtid_domain_id = 5",
            f"INSERT INTO t VALUES ({10 * n + 1})",
            "SET SESSION gtid_domain_id = 0",
            f"INSERT INTO t VALUES ({10 * n + 2})",
        )
        setting.stream()
    assert [after["id"] for _, _, after in setting.changes("t")] == [
        0,
        1,
        2,
        10,
        11,
        12,
        20,
        21,
        22,
    ]
    assert setting.position is not None and ",5-1-3" in setting.position["gtid"]


@pytest.mark.parametrize("number", [1040, 1135, 1412, 1969, 3032, 3168])
def test_what_time_mends_is_an_interruption(number: int) -> None:
    assert isinstance(plain(pymysql.err.OperationalError(number, "not now")), Interrupted)
