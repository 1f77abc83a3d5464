"""Webhooks in: signed requests of other services, stored before they are acknowledged, each once.

signatures  how senders sign; pure           config    [edges.hooks.NAME]
presets     the senders that people know     receiver  POST /hooks/{hook}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.edges.hooks.config import check as check

if TYPE_CHECKING:
    from fastapi import APIRouter

    from headwater.edges.context import Context


def router(context: Context) -> APIRouter:
    from headwater.edges.hooks import receiver

    return receiver.router(context)
