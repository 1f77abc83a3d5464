"""The body of a request as bytes, unpacked where it was packed.

Called by handlers. How much may come, and in what time, `request_body` sees to; here only what it unpacks to
needs a bound: a few kilobytes of gzip can hold gigabytes. It is unpacked piece by piece, all but the first in
a thread, and each piece counts among the bytes of its sender before the next.
"""

from __future__ import annotations

import zlib

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from headwater.edges import request_body
from headwater.edges.request_body import too_large
from headwater.edges.workers import LARGE_BYTES

_GZIP = 16 + zlib.MAX_WBITS
MEMBERS_MAX = 100
PACKED_BYTES = 64 * 1024
"""Looked at for one piece, which has at most `LARGE_BYTES`."""


async def read(request: Request, limit: int) -> bytes:
    """At most `limit` bytes, packed and unpacked; else 413.

    415 for an encoding other than gzip, 400 for a broken one.
    """
    return await content(request, await sent(request, limit), limit)


async def sent(request: Request, limit: int) -> bytes:
    """As it came, packed or not: what a signature is over. 413 beyond `limit`, 415 as for `read`."""
    encoding = _encoding(request)
    if encoding not in ("identity", "gzip", ""):
        raise HTTPException(
            415, f"the content encoding {encoding[:50]!r} is not understood: gzip is, or none"
        )
    try:
        body = await request.body()
    except ClientDisconnect:
        raise HTTPException(400, "the body ended too early") from None
    if len(body) > limit:
        raise too_large(limit)
    return body


async def content(request: Request, body: bytes, limit: int) -> bytes:
    """Of what was sent: unpacked, where the request says that it was packed."""
    if _encoding(request) != "gzip":
        return body
    incoming, unpacking = request_body.of(request.scope), _Unpacking(body, limit)
    while not unpacking.is_over:
        piece = unpacking.next_piece
        incoming.take(await incoming.parsers.run(piece) if unpacking.has_begun else piece())
    return await incoming.parsers.parsed(unpacking.size, unpacking.whole)


class _Unpacking:
    """gzip undone piece by piece, one member or several."""

    def __init__(self, body: bytes, limit: int) -> None:
        self._left, self._limit = memoryview(body), limit
        self._member = zlib.decompressobj(_GZIP)
        self._members = 0
        self._pieces: list[bytes] = []
        self.size = 0
        self.is_over = not body

    @property
    def has_begun(self) -> bool:
        return bool(self._pieces)

    def next_piece(self) -> int:
        """The bytes that it has. Raises 413 and 400."""
        some = self._left[:PACKED_BYTES]
        most = min(LARGE_BYTES, self._limit + 1 - self.size)
        try:
            piece = self._member.decompress(some, most)
            self._went_on(some, piece)
        except zlib.error as error:
            raise HTTPException(400, f"the body is no gzip: {error}") from None
        if self.size > self._limit:
            raise too_large(self._limit)
        return len(piece)

    def whole(self) -> bytes:
        return b"".join(self._pieces)

    def _went_on(self, some: memoryview, piece: bytes) -> None:
        member = self._member
        behind = member.unused_data if member.eof else member.unconsumed_tail
        self._left = self._left[len(some) - len(behind) :]
        self._pieces.append(piece)
        self.size += len(piece)
        if member.eof:
            self._members += 1
            self.is_over = not self._left
            self._member = zlib.decompressobj(_GZIP)
        elif not some and not piece:
            raise zlib.error("it ends too early")
        if self._members == MEMBERS_MAX and not self.is_over:
            raise zlib.error(f"it has more than {MEMBERS_MAX} members")


def _encoding(request: Request) -> str:
    return request.headers.get("content-encoding", "identity").strip().lower()
