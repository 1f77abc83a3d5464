"""BSON as extended JSON that people read: numbers are numbers, the rest says its type."""

from __future__ import annotations

from typing import Any

from bson import json_util

_RELAXED = json_util.JSONOptions(json_mode=json_util.JSONMode.RELAXED)


def relaxed(value: Any) -> str:
    """{"_id":{"$oid":"…"},"n":1}"""
    return json_util.dumps(value, json_options=_RELAXED, ensure_ascii=False, separators=(",", ":"))
