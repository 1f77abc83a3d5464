"""PEM files to an SSL context: what an SSL or SASL_SSL listener shows and asks for (KIP-651).

Called when the broker starts, and again on SIGHUP or when a file's name is changed through the config
APIs: the files are read anew, connections that are there go on with what they have.

    ssl.keystore.location           one PEM file with private key and certificate chain, or
    ssl.keystore.key, ssl.keystore.certificate.chain      both as text
    ssl.truststore.location         PEM certificates that sign clients' ones, or
    ssl.truststore.certificates     the same as text
"""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

from headwater.broker.security.listeners import BadListener, Listener, option
from headwater.broker.settings import Settings

GROUP = "prime256v1"
"""The one way to agree on a key: every client has it (RFC 8446, 9.1). OpenSSL would leave the choice to the
client, and ffdhe8192 costs the event loop 150 ms for one message of a stranger."""

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


def context(settings: Settings, listener: Listener) -> ssl.SSLContext:
    """What this listener speaks TLS with. Raises `BadListener` with what is wrong with the files."""

    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = sorted(
        _VERSIONS[each] for each in option(settings, listener, "ssl.enabled.protocols")
    )
    if not versions:
        raise BadListener("ssl.enabled.protocols is empty", hint="use TLSv1.2,TLSv1.3")
    made.minimum_version, made.maximum_version = versions[0], versions[-1]
    made.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    made.set_ecdh_curve(GROUP)
    _ciphers(made, option(settings, listener, "ssl.cipher.suites"))
    made.verify_mode = _CLIENTS[option(settings, listener, "ssl.client.auth") or "none"]
    renew(made, settings, listener)
    return made


def renew(made: ssl.SSLContext, settings: Settings, listener: Listener) -> None:
    """Read the files into a context, which may be in use: handshakes from now on show what they hold.
    Those who sign clients' certificates are added to those who did."""

    def get(name: str) -> str | None:
        return option(settings, listener, name) or None

    _identity(
        made,
        listener,
        get("ssl.keystore.location"),
        get("ssl.keystore.key"),
        get("ssl.keystore.certificate.chain"),
        get("ssl.key.password"),
    )
    if made.verify_mode is not ssl.CERT_NONE:
        _trust(made, get("ssl.truststore.location"), get("ssl.truststore.certificates"))


def _ciphers(made: ssl.SSLContext, names: list[str]) -> None:
    if not names:
        return
    # OpenSSL always offers TLS 1.3's own; only the older ones can be chosen.
    own = [name for name in names if not name.startswith(("TLS_AES_", "TLS_CHACHA20_"))]
    try:
        made.set_ciphers(":".join(own) or "DEFAULT")
    except ssl.SSLError:
        raise BadListener(
            f"OpenSSL knows none of the ciphers in ssl.cipher.suites: {', '.join(own)}",
            hint="`openssl ciphers -s` lists them",
        ) from None


def _identity(
    made: ssl.SSLContext,
    listener: Listener,
    location: str | None,
    key: str | None,
    chain: str | None,
    password: str | None,
) -> None:
    if key and chain:
        # OpenSSL's interface in Python takes files only; a private one, for a moment.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(_lines(key) + "\n" + _lines(chain) + "\n")
            file.flush()
            _load(made, Path(file.name), password, "ssl.keystore.key")
    elif location:
        _load(made, Path(location), password, location)
    else:
        raise BadListener(
            f"the listener {listener.name} speaks {listener.protocol} and has no certificate",
            hint="give ssl.keystore.location a PEM file with private key and certificate chain",
        )


def _lines(pem: str) -> str:
    """In one line of a settings file, line ends are written as \\n."""
    return pem.replace("\\n", "\n").strip()


def _load(made: ssl.SSLContext, path: Path, password: str | None, name: str) -> None:
    _refuse_other_stores(path)
    try:
        made.load_cert_chain(path, password=password or _no_password)
    except (OSError, ValueError) as error:
        raise BadListener(
            f"{name} cannot be used as key and certificate: {_reason(error)}",
            hint="it must be PEM with the private key and its certificate chain; "
            "ssl.key.password opens an encrypted key",
        ) from None


def _no_password() -> str:
    raise ValueError("the key is encrypted and ssl.key.password is not set")


def _trust(made: ssl.SSLContext, location: str | None, certificates: str | None) -> None:
    if not location and not certificates:
        raise BadListener(
            "ssl.client.auth wants certificates from clients, and nobody is trusted to sign them",
            hint="give ssl.truststore.location a PEM file with the certificates of those who do",
        )
    try:
        if certificates:
            made.load_verify_locations(cadata=_lines(certificates))
        else:
            _refuse_other_stores(Path(location or ""))
            made.load_verify_locations(cafile=location)
    except (OSError, ValueError) as error:
        raise BadListener(
            f"{location or 'ssl.truststore.certificates'} has no certificates: {_reason(error)}",
            hint="it must be PEM: -----BEGIN CERTIFICATE-----",
        ) from None


def _refuse_other_stores(path: Path) -> None:
    """Name the format and the way out, where somebody carries a Java key store over."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except OSError:
        return  # load_cert_chain says it better
    if start == b"\xfe\xed\xfe\xed":
        raise BadListener(
            f"{path} is a Java key store (JKS), and headwater reads PEM",
            hint=f"convert it: keytool -importkeystore -srckeystore {path} -destkeystore "
            f"{path}.p12 -deststoretype PKCS12 && openssl pkcs12 -in {path}.p12 -out {path}.pem",
        )
    if start[:2] in (b"\x30\x82", b"\x30\x80", b"\x30\x83"):
        raise BadListener(
            f"{path} looks like PKCS12, and headwater reads PEM",
            hint=f"convert it: openssl pkcs12 -in {path} -out {path}.pem",
        )


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return error.reason or "OpenSSL finds no PEM in it"
    return str(getattr(error, "strerror", None) or error)
