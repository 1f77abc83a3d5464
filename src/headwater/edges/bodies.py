"""The body of a request as bytes, unpacked where it was packed.

Called by handlers. How much may come, and in what time, `request_body` sees to; here only what it unpacks to
needs a bound: a few kilobytes of gzip can hold gigabytes.
"""

from __future__ import annotations

import zlib

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from headwater.edges.request_body import too_large

_GZIP = 16 + zlib.MAX_WBITS
MEMBERS_MAX = 100
"""What follows a member is copied."""


async def read(request: Request, limit: int, unpacked_limit: int | None = None) -> bytes:
    """At most `limit` bytes, and of packed ones at most `unpacked_limit`; else 413.

    415 for an encoding other than gzip, 400 for a broken one.
    """
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
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
    return unpacked(body, unpacked_limit or limit) if encoding == "gzip" else body


def unpacked(body: bytes, limit: int) -> bytes:
    """gzip undone, one member or several."""
    pieces: list[bytes] = []
    size = 0
    try:
        while body:
            if len(pieces) == MEMBERS_MAX:
                raise zlib.error(f"it has more than {MEMBERS_MAX} members")
            unpacking = zlib.decompressobj(_GZIP)
            piece = unpacking.decompress(body, limit + 1 - size)
            size += len(piece)
            if size > limit:
                raise too_large(limit)
            if not unpacking.eof:
                raise zlib.error("it ends too early")
            pieces.append(piece)
            body = unpacking.unused_data
    except zlib.error as error:
        raise HTTPException(400, f"the body is no gzip: {error}") from None
    return b"".join(pieces)
