"""Settings of who may connect and what they may do: listeners, TLS, SASL, ACLs. Read by `values`.

`listener.name.NAME.SETTING` gives one listener its own value of a setting in `TLS` or `SASL`;
`listener.name.NAME.plain.sasl.jaas.config` names its PLAIN users, as in Kafka's files. What is secret
is taken from the file only: a secret set while running would have to be kept in the catalogue.
"""

from __future__ import annotations

from headwater.broker.settings.definitions import (
    PER_BROKER,
    Check,
    Definition,
    Kind,
    at_least,
    items_of,
    one_of,
)
from headwater.broker.settings.oauthbearer import OAUTHBEARER

PREFIX = "listener.name."
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")


def _pem(value: str) -> str | None:
    if value.upper() == "PEM":
        return None
    return (
        "headwater reads PEM only; convert a PKCS12 file with `openssl pkcs12 -in FILE -out "
        "FILE.pem`, a JKS file with `keytool -importkeystore -srckeystore FILE -destkeystore "
        "FILE.p12 -deststoretype PKCS12` first"
    )


_PEM = Check(_pem, "PEM")

ACCESS = (
    Definition(
        "audit.enable",
        Kind.BOOLEAN,
        True,
        "Whether every change of topics, settings, users, permissions, quotas and groups is written to "
        "`__headwater_changes`, with who made it.",
    ),
    Definition(
        "audit.delegates",
        Kind.STRING,
        "",
        "Principals whose word the audit takes for whom they ask: `User:console`. Such a program names the "
        "person in its client id, and the record says `on_behalf_of`.",
    ),
    Definition(
        "authorizer.class.name",
        Kind.STRING,
        "",
        "Empty: everybody who gets in may do everything. "
        "`acl`, or Kafka's StandardAuthorizer: only what an ACL allows.",
        one_of("", "acl", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
    ),
    Definition(
        "super.users",
        Kind.STRING,
        "",
        "Principals who may do everything: `User:ann;User:bob`.",
    ),
    Definition(
        "allow.everyone.if.no.acl.found",
        Kind.BOOLEAN,
        False,
        "Whether a resource that no ACL speaks of is open to everybody.",
    ),
    Definition(
        "headwater.insecure",
        Kind.BOOLEAN,
        False,
        "Allow addresses other than loopback where nobody has to say who they are (`--insecure`).",
    ),
)

SASL = (
    Definition(
        "sasl.enabled.mechanisms",
        Kind.LIST,
        ["SCRAM-SHA-256", "SCRAM-SHA-512"],
        "How clients of a SASL listener may log in.",
        items_of(*MECHANISMS),
    ),
    Definition(
        "connections.max.reauth.ms",
        Kind.LONG,
        0,
        "How long a login holds; the client must log in again in time. 0: for ever.",
    ),
    Definition(
        "sasl.server.max.receive.size",
        Kind.INT,
        512 * 1024,
        "Largest request of a client that has not logged in yet.",
    ),
    Definition(
        "connection.failed.authentication.delay.ms",
        Kind.INT,
        100,
        "How long a refused client waits for its answer, so that guessing is slow.",
        at_least(0),
    ),
)

TLS = (
    Definition(
        "ssl.keystore.type", Kind.STRING, "PEM", "Format of the key and certificates.", _PEM
    ),
    Definition(
        "ssl.keystore.location",
        Kind.STRING,
        None,
        "File with the private key and the certificate chain.",
        None,
        PER_BROKER,
    ),
    Definition(
        "ssl.keystore.certificate.chain",
        Kind.PASSWORD,
        None,
        "The certificate chain itself, instead of a file.",
    ),
    Definition(
        "ssl.keystore.key",
        Kind.PASSWORD,
        None,
        "The private key itself, instead of a file.",
    ),
    Definition("ssl.key.password", Kind.PASSWORD, None, "Password of the private key."),
    Definition(
        "ssl.truststore.type",
        Kind.STRING,
        "PEM",
        "Format of the certificates of those who sign clients'.",
        _PEM,
    ),
    Definition(
        "ssl.truststore.location",
        Kind.STRING,
        None,
        "File with the certificates of those who sign clients'.",
        None,
        PER_BROKER,
    ),
    Definition(
        "ssl.truststore.certificates",
        Kind.PASSWORD,
        None,
        "These certificates themselves, instead of a file.",
    ),
    Definition(
        "ssl.client.auth",
        Kind.STRING,
        "none",
        "Whether clients show a certificate: none, requested (they may), required (they must).",
        one_of("required", "requested", "none"),
    ),
    Definition(
        "ssl.enabled.protocols",
        Kind.LIST,
        ["TLSv1.2", "TLSv1.3"],
        "Versions of TLS that are spoken.",
        items_of("TLSv1.2", "TLSv1.3"),
    ),
    Definition(
        "ssl.cipher.suites",
        Kind.LIST,
        [],
        "Ciphers for TLS 1.2, by OpenSSL's or the standard's names; empty: OpenSSL's choice.",
    ),
    Definition(
        "ssl.principal.mapping.rules",
        Kind.STRING,
        "DEFAULT",
        "From a certificate's subject to a user's name: DEFAULT, or RULE:pattern/replacement/[LU].",
    ),
)


def _ignored(name: str, kind: Kind, default: object, doc: str, update: str) -> Definition:
    return Definition(name, kind, default, doc, None, update, effect=False)


ACCEPTED = (
    _ignored(
        "security.inter.broker.protocol",
        Kind.STRING,
        "PLAINTEXT",
        "There is no other broker.",
        "read-only",
    ),
    _ignored(
        "sasl.mechanism.inter.broker.protocol",
        Kind.STRING,
        "GSSAPI",
        "There is no other broker.",
        PER_BROKER,
    ),
)

SECURITY = (*ACCESS, *SASL, *OAUTHBEARER, *TLS, *ACCEPTED)
PER_LISTENER = {definition.name: definition for definition in (*SASL, *OAUTHBEARER, *TLS)}
JAAS = {
    f"{mechanism}.sasl.jaas.config": Definition(
        f"{mechanism}.sasl.jaas.config",
        Kind.PASSWORD,
        None,
        'PLAIN users of one listener: `… required user_ann="…";`. SCRAM\'s are in the catalogue.',
    )
    for mechanism in ("plain", "scram-sha-256", "scram-sha-512", "oauthbearer")
}
JAAS["oauthbearer.sasl.server.callback.handler.class"] = Definition(
    "oauthbearer.sasl.server.callback.handler.class",
    Kind.STRING,
    None,
    "Tokens are always judged by the settings `sasl.oauthbearer.…`, whatever class is named here.",
)
