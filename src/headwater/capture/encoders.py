"""Which encoder a table's rows get: JSON, or Avro, Protobuf and JSON Schema where the settings ask for it;
called by sources."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.capture.config import CaptureConfig
from headwater.capture.envelope import Column, Connect, TableEncoder


def table_encoder(
    config: CaptureConfig,
    topic: str,
    columns: Sequence[Column],
    key: Sequence[int],
    source: Connect,
) -> TableEncoder:
    """`key`: places of the key's columns; `source`: the fields of the source block in Connect's terms."""
    if config.format != "json" and config.registry is not None:
        return _registered(config, config.registry, topic, columns, key, source)
    if config.format == "avro":
        from headwater.capture.avro import AvroEncoder

        made = AvroEncoder(topic, columns, key, source, tombstones=config.tombstones)
        # Its schemas go to the log in the same transaction as the first record that needs them.
        config.announced.add(made.schema_records(config.avro_topic))
        return made
    return TableEncoder(
        topic, columns, key, schema=source if config.schema else None, tombstones=config.tombstones
    )


def _registered(
    config: CaptureConfig,
    registry: str,
    topic: str,
    columns: Sequence[Column],
    key: Sequence[int],
    source: Connect,
) -> TableEncoder:
    """Its schemas are in the registry before it encodes a row."""
    from headwater.capture.schema_registration import Registration
    from headwater.schemas.model import JSON, PROTOBUF

    tombstones = config.tombstones
    if config.format == "json-schema":
        from headwater.capture.json_schema import JsonSchemaEncoder

        told = Registration(registry, topic, JSON)
        return JsonSchemaEncoder(topic, columns, key, source, told.id_of, tombstones=tombstones)
    if config.format == "protobuf":
        from headwater.capture.protobuf import ProtobufEncoder

        told = Registration(registry, topic, PROTOBUF)
        return ProtobufEncoder(
            topic, columns, key, source, told.texts, told.id_of, tombstones=tombstones
        )
    from headwater.capture.avro import AvroEncoder

    told = Registration(registry, topic)
    return AvroEncoder(topic, columns, key, source, tombstones=tombstones, identify=told.id_of)
