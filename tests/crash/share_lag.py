"""How many records a share group has not settled, asked over the wire."""

from __future__ import annotations

import io
import socket
import struct
from typing import Any

import kio.schema.describe_share_group_offsets.v1.request as messages
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

DESCRIBE_SHARE_GROUP_OFFSETS = 90


def lag(bootstrap: str, group: str, topic: str, partitions: int) -> int:
    """Records from the group's start to the end of each partition; -1 where it has not begun."""
    schema: Any = load_request_schema(DESCRIBE_SHARE_GROUP_OFFSETS, 1)
    request = messages.DescribeShareGroupOffsetsRequest(
        groups=(
            messages.DescribeShareGroupOffsetsRequestGroup(
                group_id=group,  # type: ignore[arg-type]
                topics=(
                    messages.DescribeShareGroupOffsetsRequestTopic(
                        topic_name=topic,  # type: ignore[arg-type]
                        partitions=tuple(range(partitions)),  # type: ignore[arg-type]
                    ),
                ),
            ),
        )
    )
    body = io.BytesIO()
    entity_writer(schema)(body, request)
    frame = struct.pack(">hhih", DESCRIBE_SHARE_GROUP_OFFSETS, 1, 1, -1) + b"\0" + body.getvalue()
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        stream = connection.makefile("rb")
        answer = stream.read(struct.unpack(">i", stream.read(4))[0])
    response, _ = entity_reader(load_response_schema(DESCRIBE_SHARE_GROUP_OFFSETS, 1))(answer, 5)
    parts = [part for each in response.groups[0].topics for part in each.partitions]
    return sum(part.lag for part in parts) if all(part.lag >= 0 for part in parts) else -1
