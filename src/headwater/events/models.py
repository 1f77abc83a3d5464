"""Values that msgspec does not know by itself: pydantic models."""

from __future__ import annotations

from typing import Any


def encode(value: Any) -> Any:
    """For msgspec's encoders."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"{type(value).__name__} cannot be written as JSON")


def decode(kind: Any, value: Any) -> Any:
    """For msgspec's decoders."""
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise NotImplementedError(f"{kind} cannot be read from JSON")
