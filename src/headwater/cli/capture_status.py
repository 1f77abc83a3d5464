"""How far one capture is: what `capture status` and `captures` show."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.capture.config import CaptureConfig


def asked(config: CaptureConfig) -> dict[str, Any]:
    """Its position in the log, and what the database keeps for it."""
    from headwater.capture.positions import read_positions
    from headwater.capture.source import open_source

    stored = read_positions(config.bootstrap, [config.name], config.client).get(config.name)
    source = open_source(config)
    try:
        lag = source.lag()
    finally:
        source.close()
    return {
        "capture": config.name,
        "position": stored["position"] if stored else None,
        "stored_ms": stored["ts_ms"] if stored else None,
        "lag_bytes": lag.bytes,
        "lag_seconds": lag.seconds,
        "detail": lag.detail,
    }


def shown(status: dict[str, Any]) -> str:
    """A paragraph for people."""
    name = status["capture"]
    if "trouble" in status:
        return f"{name}: {status['trouble']}"
    position = status["position"]
    if position is None:
        lines = [f"{name}: never run"]
    else:
        ago = time.time() - status["stored_ms"] / 1000
        lines = [f"{name}: {_phase(position)}; position stored {ago:.0f} s ago"]
        short = {key: value for key, value in position.items() if key != "schemas"}
        lines.append(f"  position  {json.dumps(short)}")
    if status["lag_bytes"] is not None:
        lines.append(f"  behind    {status['lag_bytes']:,} bytes")
    if status["lag_seconds"] is not None:
        lines.append(f"  behind    {status['lag_seconds']:.1f} s")
    if status["detail"]:
        lines.append(f"  database  {status['detail']}")
    return "\n".join(lines)


def _phase(position: dict[str, Any]) -> str:
    if "again" in position:
        return "removed, or told to start over"
    return "in its first snapshot" if "snapshot" in position else "streaming"
