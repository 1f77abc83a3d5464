"""`meta.properties`: whose data folder it is, in Kafka's format. Read and written by `store`.

cluster.id, directory.id, node.id, version     Kafka's
headwater.format                               of the folder as a whole (`format_version`)
headwater.checksum                             CRC-32 of the lines before it
headwater.…=true                               something that was made once and for all (`note`)
"""

from __future__ import annotations

import base64
import uuid
import zlib
from pathlib import Path

from headwater import format_version
from headwater.errors import HeadwaterError
from headwater.format_version import NewerFormat
from headwater.log.files import FileSystem

META = "meta.properties"
FORMAT, FORMAT_LINE = 1, "headwater.format"
"""Of a data folder, as this version writes it. A folder of an older one is put right where it is opened."""
CHECKSUM_LINE = "headwater.checksum"
"""A later format is believed only with it: else one damaged letter would keep us from our own folder."""


def new_id() -> str:
    """An id in Kafka's form: a UUID as 22 characters of URL-safe base64, not starting with '-'."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def cluster_id(root: Path) -> str | None:
    """Of the log in a folder, also while a broker has it open; None before its first start."""
    try:
        return read_lines((root / META).read_bytes()).get("cluster.id") or None
    except OSError:
        return None


def read_lines(data: bytes) -> dict[str, str]:
    """What can be read of the file."""
    lines = data.decode("utf-8", "replace").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and line[0] != "#")


def completed(found: dict[str, str], node_id: str) -> dict[str, str]:
    """These lines, with those that are missing made up."""
    made = {"cluster.id": new_id(), "directory.id": new_id(), "node.id": node_id, "version": "1"}
    made[FORMAT_LINE] = str(FORMAT)
    return {**made, **{name: value for name, value in found.items() if value}}


def check_format(root: Path, found: dict[str, str]) -> None:
    """Raises NewerFormat for a folder that this version cannot read; DamagedFormat where the file says what
    no version has written."""
    try:
        format_version.check(str(root), found.get(FORMAT_LINE) or None, FORMAT)
    except NewerFormat:
        if found.get(CHECKSUM_LINE) == _checksum(_body(found)):
            raise
        raise DamagedFormat(
            f"{root / META} is damaged: it says that the folder has format "
            f"{found.get(FORMAT_LINE)!r}, and its checksum says that nobody has written that.",
            hint=f"headwater repair {root} writes it again.",
        ) from None


def text_of(lines: dict[str, str]) -> bytes:
    body = _body(lines)
    return body + f"{CHECKSUM_LINE}={_checksum(body)}\n".encode()


def _body(lines: dict[str, str]) -> bytes:
    rows = (f"{name}={value}\n" for name, value in lines.items() if name != CHECKSUM_LINE)
    return "".join(rows).encode()


def _checksum(body: bytes) -> str:
    return f"{zlib.crc32(body):08x}"


class DamagedFormat(HeadwaterError):
    """Which format a folder has cannot be read."""


class Meta:
    """The file's lines, made at the first start."""

    def __init__(self, files: FileSystem, root: Path, node_id: int) -> None:
        """Raises HeadwaterError if the folder is another node's, or of a later version."""
        self._files = files
        self._path = root / META
        found = read_lines(files.read_bytes(self._path) or b"")
        check_format(root, found)
        if found.get("node.id", str(node_id)) != str(node_id):
            raise HeadwaterError(
                f"{root} belongs to node {found['node.id']}, not to node {node_id}.",
                hint=f"Start with --set node.id={found['node.id']}, or use another folder.",
            )
        self._lines = completed(found, str(node_id))
        self.cluster_id = self._lines["cluster.id"]
        self.directory_id = self._lines["directory.id"]
        self._lines.pop(CHECKSUM_LINE, None)
        if found != read_lines(text_of(self._lines)):  # else the next start would make up other ids
            self._write()

    def is_noted(self, name: str) -> bool:
        """Whether `note` has been called with this name, in this start or an earlier one."""
        return self._lines.get(name) == "true"

    def note(self, name: str) -> None:
        """Write down for good that something has been made."""
        if not self.is_noted(name):
            self._lines[name] = "true"
            self._write()

    def _write(self) -> None:
        self._files.write_atomic(self._path, text_of(self._lines))
