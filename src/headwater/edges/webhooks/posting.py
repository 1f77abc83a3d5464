"""One record as a signed POST, and what the answer means. The sender of webhooks out.

Signed as Standard Webhooks has it, so that receivers have a library for it: HMAC-SHA256 over
`{webhook-id}.{webhook-timestamp}.{body}`, one signature per secret. The id stays the same at every attempt;
the time is that of the attempt.

    webhook-id, webhook-timestamp, webhook-signature
    headwater-topic, headwater-partition, headwater-offset, headwater-attempt, headwater-key (percent-encoded)
    content-type, traceparent, tracestate, ce-… as the record has them
    headwater-tombstone: true, where the record has no value
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from urllib.parse import quote, quote_from_bytes

import h11

from headwater import __version__
from headwater.browse.records import Record
from headwater.edges.hooks.presets import STANDARD
from headwater.edges.hooks.styles import sign
from headwater.edges.webhooks.connecting import Answer, Connections
from headwater.edges.webhooks.delivery import Delivery, Outcome
from headwater.edges.webhooks.retrying import retry_after_s
from headwater.edges.webhooks.subscription import Posting
from headwater.errors import HeadwaterError

_SHOWN = 200
_GONE = 410
_HANDED_ON = ("traceparent", "tracestate")
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))


class Poster:
    """For one event loop."""

    def __init__(self, posting: Posting, now_s: Callable[[], float] = time.time) -> None:
        self._posting, self._now_s = posting, now_s
        self._connections = Connections(posting.url, allow_private=posting.allow_private)

    async def close(self) -> None:
        self._connections.close()

    async def send(self, delivery: Delivery) -> Outcome:
        body = delivery.record.value or b""
        headers = request_headers(self._posting, delivery, int(self._now_s()))
        try:
            async with asyncio.timeout(self._posting.timeout_s):
                return self._meaning(await self._connections.post(headers, body))
        except TimeoutError:
            return Outcome(False, f"no answer within {self._posting.timeout_s:g} s")
        except HeadwaterError as error:
            return Outcome(False, str(error))
        except (OSError, h11.ProtocolError) as error:
            return Outcome(False, f"{type(error).__name__}: {error}".rstrip(": "))

    def _meaning(self, answer: Answer) -> Outcome:
        if 200 <= answer.status < 300:
            return Outcome(True)
        words = answer.body[:_SHOWN].decode("utf-8", "replace").strip()
        reason = f"answered {answer.status}" + (f": {words}" if words else "")
        if 300 <= answer.status < 400:
            reason = f"answered {answer.status}, and redirects are not followed"
        wait = retry_after_s(answer.headers.get("retry-after"), self._now_s())
        return Outcome(False, reason, wait, is_final=answer.status == _GONE)


def request_headers(posting: Posting, delivery: Delivery, now_s: int) -> list[tuple[str, str]]:
    """All of them but Host and Content-Length, which the client adds."""
    record, body = delivery.record, delivery.record.value or b""
    name = quote(delivery.id, safe="._-")
    signatures = [sign(STANDARD, each, name, now_s, body) for each in posting.secrets]
    headers = {
        "user-agent": f"headwater/{__version__}",
        **posting.headers,
        **_of_record(record),
        "webhook-id": name,
        "webhook-timestamp": str(now_s),
        "webhook-signature": " ".join(signatures),
        "headwater-topic": record.topic,
        "headwater-partition": str(record.partition),
        "headwater-offset": str(record.offset),
        "headwater-attempt": str(delivery.attempt),
    }
    if record.key is not None:
        headers["headwater-key"] = quote_from_bytes(record.key)
    if record.value is None:
        headers["headwater-tombstone"] = "true"
    return list(headers.items())


def _of_record(record: Record) -> dict[str, str]:
    is_json = (record.value or b"").lstrip()[:1] in (b"{", b"[")
    found = {"content-type": "application/json" if is_json else "application/octet-stream"}
    for name, value in record.headers:
        if value is None:
            continue
        low = name.lower()
        if low == "content-type" or low in _HANDED_ON:
            found[low] = _safe(value)
        elif low.startswith("ce_") and low[3:].isalnum() and low.isascii():
            found[f"ce-{low[3:]}"] = _safe(value)
    return found


def _safe(value: bytes) -> str:
    """A header's value holds printable ASCII; the rest is percent-encoded, as CloudEvents has it."""
    return quote(value.strip(), safe=_PRINTABLE.replace("%", ""))
