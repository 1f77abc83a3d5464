"""The options of `format("headwater")`, for the source and the sink alike.

Names are case-insensitive, as everywhere in Spark. What begins with `kafka.` is a client setting and is
handed on without the prefix, spelt as Kafka's Java clients or librdkafka spell it; `client_settings`
knows both spellings of the few that differ. Everything else must be an option that the caller names:
a misspelt option is an error and not a silent default.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from headwater.client.errors import BadOption, BrokerUnreachable

PREFIX = "kafka."
BOOTSTRAP = "bootstrap.servers"
RECONNECT_MS, RECONNECT_MAX_MS = 50, 250
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_JAAS = re.compile(r'(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))')
_TRUE, _FALSE = ("true", "1", "yes"), ("false", "0", "no")


class Options:
    """A query's options, looked up without regard to case."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str, default: str | None = None) -> str | None:
        return self._given.get(name.lower(), default)

    def flag(self, name: str, default: bool) -> bool:
        value = self._given.get(name.lower())
        if value is None:
            return default
        if value.strip().lower() in _TRUE + _FALSE:
            return value.strip().lower() in _TRUE
        raise BadOption(f"{name} is {value!r}.", hint="It must be true or false.")

    def number(self, name: str, default: int | None = None, least: int = 1) -> int | None:
        value = self._given.get(name.lower())
        if value is None:
            return default
        if not re.fullmatch(r"\s*-?\d+\s*", value) or int(value) < least:
            raise BadOption(f"{name} is {value!r}.", hint=f"It must be a number from {least} on.")
        return int(value)

    def choice(self, name: str, choices: Iterable[str], default: str) -> str:
        """One of the choices, in their spelling."""
        known = {each.lower(): each for each in choices}
        value = self._given.get(name.lower(), default).strip().lower()
        if value not in known:
            spelt = " or ".join(known.values())
            raise BadOption(f"{name} is {self.text(name)!r}.", hint=f"It must be {spelt}.")
        return known[value]

    def only_one_of(self, names: Iterable[str]) -> str | None:
        """The one of these that is given; BadOption if there are several."""
        found = [name for name in names if name in self]
        if len(found) > 1:
            raise BadOption(
                f"{' and '.join(found)} contradict each other.", hint="Give one of them."
            )
        return found[0] if found else None

    def refuse_unknown(self, known: Iterable[str], whose: str) -> None:
        """BadOption for a name that is neither known nor a client setting."""
        spelt = {name.lower(): name for name in known}
        for name in self._given:
            if name in spelt or name.startswith(PREFIX):
                continue
            near = difflib.get_close_matches(name, spelt, 1)
            meant = (
                f"Did you mean {spelt[near[0]]}?"
                if near
                else "Known are: " + ", ".join(sorted(spelt.values()))
            )
            raise BadOption(f"The {whose} has no option {name!r}.", hint=meant)

    def client_settings(self) -> dict[str, str]:
        """The `kafka.*` options without their prefix; `bootstrap.servers` must be among them."""
        found = {
            name[len(PREFIX) :]: value
            for name, value in self._given.items()
            if name.startswith(PREFIX)
        }
        if not found.get(BOOTSTRAP, "").strip(" ,"):
            raise BadOption(
                "kafka.bootstrap.servers is missing.",
                hint='Say where the log is: .option("kafka.bootstrap.servers", "127.0.0.1:9092").',
            )
        return _one_spelling(found)


def _one_spelling(settings: dict[str, str]) -> dict[str, str]:
    """librdkafka's names for what the Java clients call otherwise; the rest as it is."""
    found = dict(settings)
    if "sasl.mechanisms" in found:
        found.setdefault("sasl.mechanism", found.pop("sasl.mechanisms"))
    jaas = found.pop("sasl.jaas.config", None)
    if jaas is not None:
        said = {name: quoted or plain for name, quoted, plain in _JAAS.findall(jaas)}
        if "username" not in said or "password" not in said:
            raise BadOption(
                "kafka.sasl.jaas.config names no username and password.",
                hint="Only PLAIN and SCRAM are supported; sasl.username and sasl.password will do.",
            )
        found.setdefault("sasl.username", said["username"])
        found.setdefault("sasl.password", re.sub(r"\\(.)", r"\1", said["password"]))
    _check_security(found)
    return found


def _check_security(settings: dict[str, str]) -> None:
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in SECURITY_PROTOCOLS:
        raise BadOption(
            f"kafka.security.protocol is {protocol!r}.",
            hint="It must be one of " + ", ".join(SECURITY_PROTOCOLS) + ".",
        )
    if not protocol.startswith("SASL_"):
        return
    mechanism = settings.get("sasl.mechanism", "").upper()
    if mechanism not in MECHANISMS:
        raise BadOption(
            f"kafka.sasl.mechanism is {mechanism or 'missing'}.",
            hint="It must be one of " + ", ".join(MECHANISMS) + ".",
        )
    if mechanism == "OAUTHBEARER":
        _check_grant(settings)
    elif "sasl.username" not in settings or "sasl.password" not in settings:
        raise BadOption(
            f"{protocol} needs a user.",
            hint="Give kafka.sasl.username and kafka.sasl.password, or kafka.sasl.jaas.config.",
        )


def _check_grant(settings: dict[str, str]) -> None:
    """In librdkafka's words, so that all of our clients can be given the same ones."""
    needed = {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://…/token",
        "sasl.oauthbearer.client.id": "NAME",
        "sasl.oauthbearer.client.secret": "${SECRET}",
    }
    missing = [f"kafka.{name}={value}" for name, value in needed.items() if not settings.get(name)]
    if missing or settings["sasl.oauthbearer.method"].lower() != "oidc":
        raise BadOption(
            "OAUTHBEARER needs to know where to get its tokens (client credentials grant).",
            hint="Give " + ", ".join(missing or ["kafka.sasl.oauthbearer.method=oidc"]) + ".",
        )


_SAME_IN_LIBRDKAFKA = (
    BOOTSTRAP,
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.key.password",
    "enable.ssl.certificate.verification",
    "client.id",
)
_ELSE_IN_LIBRDKAFKA = {
    "ssl.truststore.location": "ssl.ca.location",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}


_ONLY_LIBRDKAFKA = (
    "log_level",
    "error_cb",
    "reconnect.backoff.ms",
    "reconnect.backoff.max.ms",
    "metadata.recovery.strategy",
)


def cluster_settings(
    librdkafka: Mapping[str, object], timeout_s: float | None = None
) -> dict[str, str]:
    """For `Cluster`, from what a `confluent_kafka` client is given."""
    named = {
        f"{PREFIX}{name}": str(value)
        for name, value in librdkafka.items()
        if name not in _ONLY_LIBRDKAFKA
    }
    if timeout_s is not None:
        named[f"{PREFIX}default.api.timeout.ms"] = str(int(timeout_s * 1000))
    return Options(named).client_settings()


def enduring(client: Mapping[str, object] | None = None) -> dict[str, object]:
    """For a `confluent_kafka` client that is to be there again as soon as its broker is, after a restart.

    Left to itself librdkafka waits up to ten seconds between two tries to connect, twice as long each time.
    """
    own = dict(client or {})
    most_ms = int(str(own.get("reconnect.backoff.max.ms", RECONNECT_MAX_MS)))
    first_ms = int(str(own.get("reconnect.backoff.ms", min(RECONNECT_MS, most_ms))))
    return {
        "reconnect.backoff.ms": first_ms,
        "reconnect.backoff.max.ms": max(first_ms, most_ms),
        # librdkafka 2.16 stands still after a broker's restart otherwise: docs/transactions.md.
        "metadata.recovery.strategy": "none",
        **own,
    }


def librdkafka_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Where and as whom to connect, for a `confluent_kafka` client; from `client_settings`."""
    found = {name: settings[name] for name in _SAME_IN_LIBRDKAFKA if name in settings}
    for java, ours in _ELSE_IN_LIBRDKAFKA.items():
        if java in settings:
            found.setdefault(ours, settings[java])
    if "ssl.keystore.location" in settings:  # PEM: the key and its certificate in one file
        found.setdefault("ssl.certificate.location", settings["ssl.keystore.location"])
        found.setdefault("ssl.key.location", settings["ssl.keystore.location"])
        if "ssl.keystore.password" in settings:
            found.setdefault("ssl.key.password", settings["ssl.keystore.password"])
    if "ssl.endpoint.identification.algorithm" in settings:
        named = settings["ssl.endpoint.identification.algorithm"]
        found["ssl.endpoint.identification.algorithm"] = named or "none"
    return found


def addresses(bootstrap: str) -> list[tuple[str, int]]:
    """The `host:port` pairs of `bootstrap.servers`; IPv6 addresses stand in brackets."""
    found = []
    for each in filter(None, (part.strip() for part in bootstrap.split(","))):
        host, colon, port = each.rpartition(":")
        if not colon or not port.isdigit() or not host:
            raise BrokerUnreachable(
                f"{each!r} is no address of a broker.", hint="Write host:port, host:port."
            )
        found.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return found
