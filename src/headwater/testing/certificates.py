"""Certificates to try TLS with: an authority of one's own, and what it signs, as PEM files.

    authority = Authority(folder)
    server = authority.issue("broker", hosts=["localhost", "127.0.0.1"])
    broker(settings={"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": server.bundle})

Made with the `openssl` program; keys are short-lived and unprotected: for tests only.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import HeadwaterError


@dataclass(frozen=True)
class Issued:
    """A key with its certificate; `bundle` is both in one file, as Kafka's PEM key stores are."""

    key: Path
    certificate: Path
    bundle: Path


_LONG_AGO = ("-not_before", "20200101000000Z", "-not_after", "20200102000000Z")


class Authority:
    """Signs certificates; `certificate` is what others must trust."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = folder / f"{name}.key"
        self.certificate = folder / f"{name}.crt"
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "30", "-subj", f"/CN={name}"),
            *("-keyout", str(self._key), "-out", str(self.certificate)),
        )

    def issue(
        self,
        name: str,
        *,
        subject: str | None = None,
        hosts: Sequence[str] = (),
        expired: bool = False,
        password: str | None = None,
    ) -> Issued:
        """A certificate for `name` (`subject`: the whole of it, as /O=shop/CN=ann)."""
        key, certificate = self.folder / f"{name}.key", self.folder / f"{name}.crt"
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        _openssl(
            *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *(("-passout", f"pass:{password}") if password else ("-nodes",)),
            *("-subj", subject or f"/CN={name}", "-keyout", str(key), "-out", str(request)),
        )
        extensions.write_text(_extensions(hosts))
        signing = (
            *("x509", "-req", "-in", str(request), "-CA", str(self.certificate)),
            *("-CAkey", str(self._key), "-CAcreateserial", "-extfile", str(extensions)),
            *("-out", str(certificate)),
        )
        if not expired:
            _openssl(*signing, "-days", "30")
        else:
            try:  # from OpenSSL 3.4 on, which wants an end behind the beginning
                _openssl(*signing, *_LONG_AGO)
            except HeadwaterError:
                _openssl(*signing, "-days", "-1")
        bundle = self.folder / f"{name}.pem"
        bundle.write_text(key.read_text() + certificate.read_text() + self.certificate.read_text())
        return Issued(key, certificate, bundle)


def _extensions(hosts: Sequence[str]) -> str:
    if not hosts:
        return "basicConstraints=CA:FALSE\n"
    names = [f"{'IP' if host[0].isdigit() else 'DNS'}:{host}" for host in hosts]
    return f"basicConstraints=CA:FALSE\nsubjectAltName={','.join(names)}\n"


def _openssl(*arguments: str) -> None:
    program = shutil.which("openssl")
    if program is None:
        raise HeadwaterError("the program openssl is missing", hint="install openssl")
    done = subprocess.run([program, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise HeadwaterError(f"openssl {arguments[0]} failed: {done.stderr[-500:]}")
