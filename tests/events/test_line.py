"""The owners' line logs in by tokens of a real issuer, and renews its login between the batches."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping

import pytest

from headwater import testing
from headwater.client import creation
from headwater.client.cluster import Cluster
from headwater.client.options import Options, addresses
from headwater.events import line as lines
from headwater.events.line import Line
from headwater.events.produce import LOST, Stored
from headwater.events.writer import pack
from headwater.testing.embedded_broker import EmbeddedBroker
from headwater.testing.issuer import Issuer, issuer


@pytest.fixture
def idp() -> Iterator[Issuer]:
    with issuer() as found:
        yield found


@contextlib.contextmanager
def broker(
    idp: Issuer, clock: testing.ManualClock | None = None, **more: str
) -> Iterator[EmbeddedBroker]:
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.expected.issuer": idp.url,
        "sasl.oauthbearer.expected.audience": "headwater",
        **more,
    }
    given = {} if clock is None else {"clock": clock}
    with testing.broker(settings=settings, listen=None, **given) as found:
        yield found


def client(idp: Issuer, kafka: EmbeddedBroker) -> Mapping[str, str]:
    named = {
        "bootstrap.servers": kafka.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": idp.token_url,
        "sasl.oauthbearer.client.id": "shop",
        "sasl.oauthbearer.client.secret": idp.clients["shop"],
    }
    return Options({f"kafka.{name}": value for name, value in named.items()}).client_settings()


@contextlib.asynccontextmanager
async def connected(settings: Mapping[str, str]) -> AsyncIterator[Line]:
    (where,) = addresses(settings["bootstrap.servers"])
    with contextlib.closing(Cluster(settings)) as cluster:
        creation.ensure_one(cluster, "t", 1)
    line = await lines.connect(where, settings)
    try:
        yield line
    finally:
        line.close()


def stored(line: Line) -> asyncio.Future[Stored]:
    found: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()
    data = pack([(b"k", b"v")], testing.ManualClock().now_ms(), -1, -1, -1)
    line.produce("t", 0, data, found.set_result)
    return found


async def test_a_login_is_renewed_between_batches_which_keep_their_order(idp):
    clock = testing.ManualClock()
    with broker(idp, clock) as kafka:
        settings = client(idp, kafka)
        async with connected(settings) as line, asyncio.timeout(60):
            await stored(line)
            clock.advance(idp.lifetime_s * 800)
            sent = [stored(line) for _ in range(5)]
            renewing = asyncio.create_task(line.renew(settings))
            while not renewing.done():
                if line._idle is not None:
                    sent.append(stored(line))
                await asyncio.sleep(0)
            assert len(sent) > 5, "some came while the login was renewed"
            found = await asyncio.gather(*sent)
            assert found == [Stored(0, offset) for offset in range(1, len(sent) + 1)]
            clock.advance(idp.lifetime_s * 800)
            assert await stored(line) == Stored(0, len(sent) + 1), "the first login is over"


async def test_a_line_renews_its_login_by_itself(idp):
    with broker(idp, **{"connections.max.reauth.ms": "1500"}) as kafka:
        async with connected(client(idp, kafka)) as line, asyncio.timeout(60):
            while line._renewing is None or not line._renewing.done():
                await asyncio.sleep(0.01)
            assert (await stored(line)).error == 0


async def test_a_line_goes_on_while_no_token_is_to_be_had(idp):
    idp.expires_in = 1e-9
    with broker(idp) as kafka:
        settings = client(idp, kafka)
        async with connected(settings) as line, asyncio.timeout(60):
            idp.failing = True
            await line.renew(settings)
            assert (await stored(line)).error == 0


async def test_batches_that_wait_for_a_login_are_told_that_the_line_broke(idp):
    clock = testing.ManualClock()
    with broker(idp, clock) as kafka:
        settings = client(idp, kafka)
        async with connected(settings) as line, asyncio.timeout(60):
            clock.advance(5_000)
            renewing = asyncio.create_task(line.renew(settings))
            while line._idle is None:
                await asyncio.sleep(0)
            waiting = stored(line)
            line.close()
            assert await waiting == LOST
            await renewing
            assert await stored(line) == LOST
