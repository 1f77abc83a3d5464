"""Which encoder a table's rows get: JSON, or Avro where the settings ask for it; called by sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.capture.config import CaptureConfig
from headwater.capture.envelope import Column, TableEncoder


def table_encoder(
    config: CaptureConfig,
    topic: str,
    columns: Sequence[Column],
    key: Sequence[int],
    source: dict[str, Any],
) -> TableEncoder:
    """`key`: places of the key's columns; `source`: the fields of the source block in Connect's terms."""
    if config.format == "avro":
        from headwater.capture.avro import AvroEncoder

        made = AvroEncoder(topic, columns, key, source, tombstones=config.tombstones)
        # Its schemas go to the log in the same transaction as the first record that needs them.
        config.announced.add(made.schema_records(config.avro_topic))
        return made
    return TableEncoder(
        topic, columns, key, schema=source if config.schema else None, tombstones=config.tombstones
    )
