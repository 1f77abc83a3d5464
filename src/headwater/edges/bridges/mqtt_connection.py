"""One MQTT connection: paho's network thread, heard on the event loop.

Called by `mqtt`. paho's own reconnecting is off: a connection that breaks ends its bridge, and the next one
begins with a clean state of mind. Otherwise an acknowledgement might go out on a new connection, where its
number means another message.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.edges.bridges.addresses import Address, BadAddress, parsed
from headwater.edges.bridges.contract import BridgeBroken, End
from headwater.secrets import names_one

if TYPE_CHECKING:
    from paho.mqtt.client import Client

CONNECT_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 2.0
KEEP_ALIVE_S = 30
INFLIGHT_MAX = 1000
"""What the broker may send ahead, and we, before something is acknowledged."""
INFLIGHT_UNTOLD = 100
"""Where the broker does not say how many it takes (MQTT 3.1.1)."""
PACKET_BYTES_MAX = 16 * 1024**2
"""What the broker may send us in one (MQTT 5); it drops what is larger, as it may."""
NOTHING = "headwater/nothing"
"""A filter that nobody subscribes to."""
PORTS = {"mqtt": 1883, "mqtts": 8883}
OPTIONS = {"qos": 1, "version": "5", "client_id": "", "ca": ""}

_log = logging.getLogger("headwater.edges.mqtt")


class Connection:
    """Open it once; `broken` is done when it is no more."""

    def __init__(self, end: End, *, session_s: int = 0) -> None:
        self._end = end
        self._session_s = session_s
        self.address = address_of(end)
        self._loop = asyncio.get_running_loop()
        self.broken: asyncio.Future[str] = self._loop.create_future()
        self._connected: asyncio.Future[Any] = self._loop.create_future()
        self._answers: dict[int, asyncio.Future[list[Any]]] = {}
        self.window = INFLIGHT_UNTOLD
        """How many publications may be under way at once."""
        self.packet_bytes_max: int | None = None
        """What the broker takes in one; None: it has not said."""
        self.client = self._made()

    @property
    def is_v5(self) -> bool:
        return bool(self._end.text("version") == "5")

    def _made(self) -> Client:
        from paho.mqtt.client import Client
        from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

        versions = {"5": MQTTProtocolVersion.MQTTv5, "3.1.1": MQTTProtocolVersion.MQTTv311}
        client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=self._end.text("client_id") or f"headwater-{self._end.bridge}",
            clean_session=None if self.is_v5 else not self._session_s,
            protocol=versions[self._end.text("version")],
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.max_inflight_messages = 0  # we count, by what the broker says when we are connected
        if self.address.user:
            client.username_pw_set(self.address.user, self.address.password)
        if self._end.scheme == "mqtts":
            ca = self._end.text("ca") or None
            client.tls_set_context(ssl.create_default_context(cafile=ca))
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_subscribe = self._on_subscribe
        client.on_unsubscribe = self._on_subscribe
        return client

    # ---- from the event loop --------------------------------------------------------------------

    async def open(self) -> None:
        words: dict[str, Any] = {"keepalive": KEEP_ALIVE_S}
        if self.is_v5:
            words |= {"clean_start": not self._session_s, "properties": self._wishes()}
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await asyncio.to_thread(
                    self.client.connect, self.address.host, self.address.port, **words
                )
                self.client.loop_start()
                reason = await self._connected
        except TimeoutError:
            raise self.failure("did not answer in time") from None
        except OSError as error:
            raise self.failure(str(error)) from error
        if reason.is_failure:
            raise self.failure(f"refused the connection: {reason}")

    def _wishes(self) -> Any:
        from paho.mqtt.packettypes import PacketTypes
        from paho.mqtt.properties import Properties

        wishes: Any = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        wishes.SessionExpiryInterval = self._session_s
        wishes.ReceiveMaximum = INFLIGHT_MAX
        wishes.MaximumPacketSize = PACKET_BYTES_MAX
        return wishes

    async def subscribe(self, pattern: str, qos: int) -> None:
        _, number = self.client.subscribe(pattern, qos)
        if number is None:
            raise self.failure("went away")
        answer = self._answers[number] = self._loop.create_future()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await asyncio.wait((answer, self.broken), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise self.failure("did not answer a subscription") from None
        self.check()
        for reason in answer.result():
            if reason.is_failure:
                raise self.failure(f"refused the subscription to {pattern}: {reason}")

    def check(self) -> None:
        """Raises BridgeBroken where the connection is no more."""
        if self.broken.done():
            raise self.failure(self.broken.result())

    def failure(self, what: str) -> BridgeBroken:
        return BridgeBroken(f"MQTT broker at {self.address.shown}: {what}")

    async def close(self) -> None:
        if self._connected.done() and not self.broken.done():
            await self._settled()
        self.client.disconnect()
        if self._connected.done():
            await asyncio.wait((self.broken,), timeout=CLOSE_TIMEOUT_S)
        await asyncio.to_thread(self.client.loop_stop)
        if self._connected.done() and not self._connected.cancelled():
            self._connected.exception()  # whether anybody has looked or not

    async def _settled(self) -> None:
        """Wait until the broker has dealt with what we have sent, by an answer to one thing more.

        Mosquitto forgets acknowledgements that it has not read yet when the same client comes again."""
        _, number = self.client.unsubscribe(NOTHING)
        if number is not None:
            answer = self._answers[number] = self._loop.create_future()
            both = (answer, self.broken)
            await asyncio.wait(both, timeout=CLOSE_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)

    def later(self, function: Callable[..., None], *words: Any) -> None:
        """From paho's thread to the event loop; it may be over already."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *words)

    # ---- from paho's thread ---------------------------------------------------------------------

    def _on_connect(self, client: Client, _: Any, flags: Any, reason: Any, given: Any) -> None:
        if self.is_v5:  # more at once than the broker wants is a protocol error (section 3.3.4)
            self.window = min(getattr(given, "ReceiveMaximum", INFLIGHT_MAX), INFLIGHT_MAX)
            self.packet_bytes_max = getattr(given, "MaximumPacketSize", None)
        self.later(_settle, self._connected, reason)

    def _on_disconnect(self, client: Client, _: Any, flags: Any, reason: Any, given: Any) -> None:
        self.later(self._end_with, f"the connection ended ({reason})")

    def _on_subscribe(self, client: Client, _: Any, number: int, reasons: Any, given: Any) -> None:
        self.later(self._heard, number, reasons)

    # ---- on the event loop again ----------------------------------------------------------------

    def _end_with(self, why: str) -> None:
        _settle(self.broken, why)
        if not self._connected.done():
            self._connected.set_exception(self.failure(why))

    def _heard(self, number: int, reasons: Any) -> None:
        if number in self._answers:
            _settle(self._answers.pop(number), reasons)


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def address_of(end: End) -> Address:
    return parsed(end.place, PORTS.get(end.scheme, PORTS["mqtt"]))


def complaints(end: End, qos: tuple[int, ...], why: str) -> list[str]:
    """What both ways check."""
    said = []
    try:
        if not address_of(end).path:
            said.append(f"{end.shown} names no MQTT topic: mqtt://host/sensors/#")
    except BadAddress as error:
        said.append(f"{end.shown} {error}")
    if (ca := end.text("ca")) and end.scheme != "mqtts":
        said.append(f"ca = {ca!r} is for mqtts://: nothing is encrypted here")
    elif ca and not names_one(ca):
        try:
            ssl.create_default_context(cafile=ca)
        except OSError as error:
            said.append(f"ca = {ca!r} is no file of certificates: {error.strerror or error}")
    if end.text("version") not in ("5", "3.1.1"):
        said.append(f'version = {end.text("version")!r} is neither "5" nor "3.1.1"')
    if end.number("qos") not in qos:
        said.append(
            f"qos = {end.number('qos')} is not {' or '.join(map(str, qos))} in this direction: {why}"
        )
    return said
