"""Brokers that restart, that are not there, and that do not let us in."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater import testing
from headwater.client import cluster
from headwater.client.errors import BadOption, BrokerUnreachable, ClientError, LoginRefused
from headwater.project.ports import free_port
from headwater.spark.source.batch import BatchReader
from tests.compat.cluster import Cluster, headwater_process
from tests.security import servers
from tests.security.scram_client import give_password
from tests.security.servers import PLAIN_PASSWORD, PLAIN_USER, Certificates, Secured
from tests.spark.source.reading import numbers, options, produce, read, schema, step, stream, values

PASSWORD = 'all "the", = signs'


def test_a_broker_that_restarts_in_mid_batch_is_waited_for(tmp_path: Path, topic: str) -> None:
    port = free_port()
    wanted = [each.ljust(1000, b".") for each in numbers(3000)]
    with headwater_process(tmp_path / "data", port) as (bootstrap, process):
        Cluster("headwater", bootstrap).create_topic(topic)
        produce(bootstrap, topic, wanted, **{"batch.num.messages": 50})
        small = {"kafka_max_partition_fetch_bytes": "200000", "files": "false"}
        found = options(bootstrap, subscribe=topic, **small)
        reader = BatchReader(found, schema(found))
        (task,) = reader.partitions()
        going = reader.read(task)
        rows = next(going).column("value").to_pylist()
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    again = threading.Event()
    ended = threading.Event()

    def come_back() -> None:
        with headwater_process(tmp_path / "data", port):
            again.set()
            ended.wait(100)

    thread = threading.Thread(target=come_back)
    thread.start()
    try:
        for batch in going:  # begins to ask while nobody is there
            rows += batch.column("value").to_pylist()
    finally:
        again.wait(60)
        ended.set()
        thread.join()
    assert rows == wanted


def test_a_stream_goes_on_after_a_restart_of_the_broker(tmp_path: Path, topic: str) -> None:
    port = free_port()
    with headwater_process(tmp_path / "data", port) as (bootstrap, _):
        Cluster("headwater", bootstrap).create_topic(topic)
        produce(bootstrap, topic, numbers(10))
        reader = stream(bootstrap, subscribe=topic)
        position, found = step(reader, reader.initialOffset())
    with headwater_process(tmp_path / "data", port) as (bootstrap, _):
        produce(bootstrap, topic, numbers(10, 10))
        _, more = step(reader, position)
    assert found + more == numbers(20)
    cluster.cluster(reader.options.client).close()


def test_a_broker_that_is_not_there_is_an_error_after_the_deadline() -> None:
    began = time.monotonic()
    with pytest.raises(BrokerUnreachable, match="Is the broker running"):
        read(f"127.0.0.1:{free_port()}", subscribe="x", kafka_default_api_timeout_ms="800")
    assert time.monotonic() - began < 50


def test_something_else_that_listens_is_not_taken_for_a_broker() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(1000)
                    peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        port = server.getsockname()[1]
        try:
            with pytest.raises(BrokerUnreachable, match="does not speak Kafka"):
                read(f"127.0.0.1:{port}", subscribe="x", kafka_default_api_timeout_ms="500")
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(BrokerUnreachable, match="host:port"):
        read("localhost", subscribe="x")


# ---- who is let in -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    certificates = Certificates.make(tmp_path_factory.mktemp("certificates"))
    home = tmp_path_factory.mktemp("secured")
    with servers.headwater(certificates, home, **{"super.users": SUPER}) as server:
        with server.admin() as wire:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                assert give_password(wire, mechanism, "root", PASSWORD) == 0
                assert give_password(wire, mechanism, "nobody", PASSWORD) == 0
        Cluster("headwater", server.bootstrap).create_topic("orders")
        produce(server.bootstrap, "orders", numbers(10))
        yield server
        for each in cluster._shared.values():
            each.close()


SUPER = f"User:ANONYMOUS;User:root;User:{PLAIN_USER};User:CN=ann,OU=dev,O=shop,C=CH"


def login(server: Secured, mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "subscribe": "orders",
        "kafka_security_protocol": "SASL_PLAINTEXT",
        "kafka_sasl_mechanism": mechanism,
        "kafka_sasl_username": user,
        "kafka_sasl_password": password,
        "kafka_default_api_timeout_ms": "60000",
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_users_log_in_by_every_mechanism(secured: Secured, mechanism: str) -> None:
    user = (PLAIN_USER, PLAIN_PASSWORD) if mechanism == "PLAIN" else ("root", PASSWORD)
    where = secured.listeners["SASL_PLAINTEXT"]
    for files in ("true", "false"):
        assert values(where, files=files, **login(secured, mechanism, *user)) == numbers(10)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_wrong_credentials_are_an_error_at_once(secured: Secured, mechanism: str) -> None:
    began = time.monotonic()
    with pytest.raises(LoginRefused, match=r"(?s)refused user 'root'.*kafka\.sasl\.password"):
        read(secured.listeners["SASL_PLAINTEXT"], **login(secured, mechanism, "root", "wrong"))
    assert time.monotonic() - began < 50


def test_a_mechanism_that_is_not_offered_is_named(secured: Secured, topic: str) -> None:
    with (
        servers.headwater(
            secured.certificates,
            secured.data.parent / "one",
            **{"sasl.enabled.mechanisms": "SCRAM-SHA-256"},
        ) as other,
        pytest.raises(LoginRefused, match="It offers SCRAM-SHA-256"),
    ):
        read(other.listeners["SASL_PLAINTEXT"], **login(other, "PLAIN", "a", "b"))


def test_a_user_without_rights_learns_which_are_missing(secured: Secured) -> None:
    with pytest.raises(ClientError, match=r"authorization_failed|no topic 'orders'"):
        read(
            secured.listeners["SASL_PLAINTEXT"],
            **login(secured, "SCRAM-SHA-256", "nobody", PASSWORD),
        )


def test_tls_with_and_without_a_certificate_of_ones_own(secured: Secured) -> None:
    trust = {"kafka_security_protocol": "SSL", "subscribe": "orders"}
    trust["kafka_ssl_ca_location"] = str(secured.certificates.authority.certificate)
    mine = {**trust, "kafka_ssl_keystore_location": str(secured.certificates.client.bundle)}
    assert values(secured.listeners["MTLS"], **mine) == numbers(10)
    text = {
        **trust,
        "kafka_ssl_keystore_key": secured.certificates.client.key.read_text(),
        "kafka_ssl_keystore_certificate_chain": secured.certificates.client.certificate.read_text(),
    }
    assert values(secured.listeners["MTLS"], **text) == numbers(10)
    encrypted = login(secured, "SCRAM-SHA-512", "root", PASSWORD)
    encrypted |= {**trust, "kafka_security_protocol": "SASL_SSL"}
    assert values(secured.listeners["SASL_SSL"], **encrypted) == numbers(10)


def test_a_certificate_that_nobody_trusts_is_an_error_at_once(secured: Secured) -> None:
    tls = {"kafka_security_protocol": "SSL", "subscribe": "orders"}
    with pytest.raises(LoginRefused, match=r"kafka\.ssl\.ca\.location"):
        read(secured.listeners["SSL"], **tls)
    with pytest.raises(BadOption, match="only Java reads"):
        read(secured.listeners["SSL"], kafka_ssl_truststore_location="store.jks", **tls)
    with pytest.raises(BadOption, match="readable PEM"):
        read(secured.listeners["SSL"], kafka_ssl_ca_location="/nowhere.pem", **tls)


def test_a_reader_of_a_closed_connection_connects_again(topic: str) -> None:
    """Brokers close idle connections; a worker that slept must not mind."""
    with testing.broker() as kafka:
        Cluster("headwater", kafka.bootstrap).create_topic(topic)
        produce(kafka.bootstrap, topic, numbers(5))
        assert values(kafka.bootstrap, subscribe=topic, files="false") == numbers(5)
        closed = [kafka.faults.disconnect(api) for api in ("Metadata", "ListOffsets", "Fetch")]
        assert values(kafka.bootstrap, subscribe=topic, files="false") == numbers(5)
        assert [each.struck for each in closed] == [1, 1, 1]
        cluster.cluster({"bootstrap.servers": kafka.bootstrap}).close()
