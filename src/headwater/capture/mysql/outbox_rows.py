"""Rows of an outbox table as the events that they are; called by `encoder` and `snapshot`.

The decoder gives JSON fragments, as everything else wants them; the router wants values.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from typing import Any

from headwater.capture.change import Record
from headwater.capture.mysql.columns import Field
from headwater.capture.outbox import Router


class Outbox:
    """One outbox table at one moment of its schema."""

    def __init__(self, capture: str, table: str, fields: Sequence[Field]) -> None:
        self._router = Router(capture, table, [field.column.name for field in fields])
        self._is_bytes = [dict(field.column.connect)["type"] == "bytes" for field in fields]
        self.dead_letters = self._router.dead_letters

    def inserted(self, images: Iterable[Sequence[Any]]) -> list[Record]:
        return [self._router.inserted(self._values(image)) for image in images]

    def updated(self, images: Iterable[Sequence[Any]]) -> list[Record]:
        """Rows that were changed after they were sent: dead letters."""
        return [self._router.updated(self._values(image)) for image in images]

    def _values(self, image: Sequence[Any]) -> list[Any]:
        return [
            _value(fragment, is_bytes)
            for fragment, is_bytes in zip(image, self._is_bytes, strict=True)
        ]


def _value(fragment: Any, is_bytes: bool) -> Any:
    value = json.loads(fragment) if isinstance(fragment, str) else fragment
    return base64.b64decode(value) if is_bytes and value is not None else value
