"""Is this request from whom it says it is, and not an old one again? The ways in which senders sign; pure.

Called by `receiver` with a request's headers and body as they came: a signature is over bytes, so nothing
may be parsed and written again before. `presets` has the senders that people know.

    style       signature header             signed                       time, id
    github      X-Hub-Signature-256          body                         X-GitHub-Delivery
    stripe      Stripe-Signature (t=, v1=)   {timestamp}.{body}           `id` in the body
    standard    webhook-signature (v1,…)     {id}.{timestamp}.{body}      webhook-id, webhook-timestamp
    slack       X-Slack-Signature            v0:{timestamp}:{body}        `event_id` in the body
    shopify     X-Shopify-Hmac-Sha256        body                         X-Shopify-Webhook-Id
    gitlab      X-Gitlab-Token               nothing: the secret itself   X-Gitlab-Event-UUID

Invariants: every comparison must take the same time whatever is wrong; a timestamp counts only where it is
signed; a secret that was replaced goes on to count as long as it stands in the list.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from headwater import json_size
from headwater.browse.filters import field_of
from headwater.edges import json_values
from headwater.errors import HeadwaterError

TOLERANCE_S = 300
SECRET_PREFIX = "whsec_"
"""A secret of Standard Webhooks: base64 follows."""
_PART = re.compile(r"\{(id|timestamp|body)\}")


class NotGenuine(HeadwaterError):
    """The signature is missing, wrong or too old: answered with 401, nothing is stored."""


class Incomplete(HeadwaterError):
    """Signed, but without what the style needs: answered with 400."""


@dataclass(frozen=True)
class Style:
    """How one kind of sender signs. Header names in lower case."""

    header: str
    """Where the signature is."""
    layout: Literal["plain", "pairs", "versions"] = "plain"
    """plain: the signature; pairs: `t=…,v1=…`; versions: `v1,… v1,…`."""
    algorithm: str = "sha256"
    """A name of hashlib's; "token": the header is the secret itself."""
    encoding: Literal["hex", "base64"] = "hex"
    prefix: str = ""
    """Before the signature: `sha256=`."""
    signed: str = "{body}"
    """What is signed, of {id}, {timestamp}, {body} and text between."""
    timestamp_header: str | None = None
    id_header: str | None = None
    id_field: str | None = None
    """A path in the JSON body."""
    is_id_needed: bool = True
    kept: tuple[str, ...] = ()
    """Headers that become headers of the record."""

    @property
    def has_time(self) -> bool:
        return "{timestamp}" in self.signed


@dataclass(frozen=True)
class Signed:
    """A request whose signature and time are right: what its headers say of time and delivery."""

    timestamp: str
    delivery: str | None


@dataclass(frozen=True)
class Genuine:
    """A request that was signed; `id` None: nothing tells it from another with the same body."""

    id: str | None


def verify(
    style: Style,
    secrets: Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    now_s: float,
    tolerance_s: float = TOLERANCE_S,
) -> Genuine:
    """A body that was sent as it is. Raises NotGenuine or Incomplete."""
    return identify(style, check(style, secrets, headers, body, now_s, tolerance_s), body)


def check(
    style: Style,
    secrets: Sequence[str],
    headers: Mapping[str, str],
    sent: bytes,
    now_s: float,
    tolerance_s: float = TOLERANCE_S,
) -> Signed:
    """Signature and time, over the bytes as they came; header names in lower case. Raises NotGenuine."""
    said = headers.get(style.header, "")
    if not said:
        raise NotGenuine(f"there is no header {style.header}", hint="sign the request")
    timestamp, signatures = _read(style, headers, said)
    delivery = headers.get(style.id_header or "") or None
    if not _is_signed(style, secrets, signatures, delivery or "", timestamp, sent):
        raise NotGenuine(
            f"the signature in {style.header} is not of this body and our secret",
            hint="compare the secrets on both sides, and the style of the hook; what is packed is "
            "signed as it is sent",
        )
    if style.has_time:
        _check_time(style, timestamp, now_s, tolerance_s)
    return Signed(timestamp, delivery)


def identify(style: Style, signed: Signed, content: bytes) -> Genuine:
    """Which delivery it is: only now is it known who sent what is read here. Raises Incomplete."""
    delivery = signed.delivery
    if delivery is None and style.id_field is not None and style.id_header is None:
        delivery = text_at(content, style.id_field)
    if delivery is None and style.is_id_needed and (style.id_header or style.id_field):
        where = style.id_header or f"the field {style.id_field} of the body"
        raise Incomplete(f"the delivery has no id in {where}", hint="is it the right style?")
    if delivery is None and style.has_time:
        # The same second and body: the same delivery. Not its signature, which can be spelt in many ways.
        delivery = hashlib.sha256(signed.timestamp.encode() + b"\n" + content).hexdigest()
    return Genuine(delivery)


def sign(style: Style, secret: str, delivery: str, timestamp: int, body: bytes) -> str:
    """The value of the signature header, as a sender of that style writes it."""
    if style.algorithm == "token":
        return secret
    mac = _mac(style, secret, delivery, str(timestamp), body)
    text = mac.hex() if style.encoding == "hex" else base64.b64encode(mac).decode()
    if style.layout == "pairs":
        return f"t={timestamp},v1={text}"
    return f"v1,{text}" if style.layout == "versions" else style.prefix + text


def _read(style: Style, headers: Mapping[str, str], said: str) -> tuple[str, list[str]]:
    """The timestamp as it was written, and the signatures."""
    timestamp = headers.get(style.timestamp_header or "", "")
    if style.layout == "pairs":
        pairs = [part.strip().partition("=") for part in said.split(",")]
        timestamp = next((value for name, _, value in pairs if name == "t"), "")
        return timestamp, [value for name, _, value in pairs if name == "v1"]
    if style.layout == "versions":
        parts = [part.partition(",") for part in said.split()]
        return timestamp, [value for name, _, value in parts if name == "v1"]
    if not said.startswith(style.prefix):
        return timestamp, []
    return timestamp, [said.removeprefix(style.prefix)]


def _is_signed(
    style: Style,
    secrets: Iterable[str],
    signatures: Sequence[str],
    delivery: str,
    timestamp: str,
    body: bytes,
) -> bool:
    found = False
    for secret in secrets:
        if not signing_key(secret):
            continue  # anybody could sign with nothing
        if style.algorithm == "token":
            wanted, given = secret.encode(), [each.encode() for each in signatures]
        else:
            wanted = _mac(style, secret, delivery, timestamp, body)
            given = [_bytes(style, each) for each in signatures]
        for each in given:
            found |= hmac.compare_digest(wanted, each)
    return found


def _mac(style: Style, secret: str, delivery: str, timestamp: str, body: bytes) -> bytes:
    mac = hmac.new(signing_key(secret), digestmod=getattr(hashlib, style.algorithm))
    parts = {"id": delivery.encode(), "timestamp": timestamp.encode(), "body": body}
    for number, text in enumerate(_PART.split(style.signed)):
        mac.update(parts[text] if number % 2 else text.encode())
    return mac.digest()


def signing_key(secret: str) -> bytes:
    """What is signed with; empty: `whsec_` has nothing behind it."""
    if secret.startswith(SECRET_PREFIX):
        coded = secret.removeprefix(SECRET_PREFIX)
        try:
            return base64.b64decode(coded, validate=True) if coded.strip(" =") else b""
        except binascii.Error:
            pass  # a secret may begin as it likes
    return secret.encode()


def _bytes(style: Style, text: str) -> bytes:
    try:
        if style.encoding == "hex":
            return bytes.fromhex(text)
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return b""


def _check_time(style: Style, timestamp: str, now_s: float, tolerance_s: float) -> None:
    if not re.fullmatch(r"[0-9]{1,15}", timestamp):
        raise NotGenuine("the signature has no timestamp", hint="is it the right style?")
    if abs(now_s - int(timestamp)) > tolerance_s:
        raise NotGenuine(
            f"it was signed {abs(now_s - int(timestamp)):.0f} s from now, and {tolerance_s:g} are "
            "allowed",
            hint="compare the clocks; a request that was sent before is not taken again",
        )


def text_at(body: bytes, path: str) -> str | None:
    """A field of a JSON body as text; None where there is none. Of a body with very many values, one that is
    a text or a number."""
    names = path.split(".")
    try:
        is_much = json_size.many(body) is not None
        found = json_values.at(body, names) if is_much else field_of(json.loads(body), names)
        if isinstance(found, str):
            found.encode()  # half a surrogate pair is JSON, and no text
            return found or None
    except (ValueError, RecursionError):
        return None
    return json.dumps(found) if isinstance(found, bool | int | float) else None
