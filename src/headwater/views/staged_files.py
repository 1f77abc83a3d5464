"""Parts of a batch as Arrow files in a folder, until the commit reads them: the staging of embedded stores.

Written by tasks, read and removed by the driver. The folder is beside the store, or where the option
`staging` says; on a cluster every machine must see it. A file belongs to one attempt of one task, so that
what a replaced driver still writes is never mixed with its successor's.

    FOLDER/VIEW-v1/12/3-9f86d081….arrow     batch 12, part 3

Files are not synced: what a power cut takes away is staged again, as its batch was not committed.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.views.target import Part, Shape, Unavailable

if TYPE_CHECKING:
    import pyarrow as pa


class StagedFiles:
    """The staged parts of one version of a view."""

    def __init__(self, beside: Path, shape: Shape) -> None:
        default = beside.with_name(f"{beside.name}.staging")
        chosen = Path(shape.options.get("staging") or default)
        self._folder = chosen.absolute() / f"{shape.view}-v{shape.version}"

    def write(self, batch: int, part: int, rows: Iterable[pa.RecordBatch]) -> Part:
        """Put rows aside."""
        folder = self._folder / str(batch)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{part}-{uuid.uuid4().hex}.arrow"
        return Part(part, str(path), _write(path, rows))

    def rewrite(self, part: Part, rows: Iterable[pa.RecordBatch]) -> None:
        """Put other rows in a part's place, all at once."""
        path = Path(part.place)
        fresh = path.with_suffix(".fresh")
        _write(fresh, rows)
        fresh.rename(path)

    def read(self, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows of a part, from a memory map."""
        import pyarrow as pa

        try:
            with pa.memory_map(part.place) as source, pa.ipc.open_stream(source) as stream:
                yield from stream
        except FileNotFoundError as error:
            raise Unavailable(
                f"the staged part {part.place} is not there",
                hint="on a cluster, the option staging must name a folder that all machines see",
            ) from error

    def table(self, parts: Sequence[Part], schema: pa.Schema) -> pa.Table:
        """The rows of these parts."""
        import pyarrow as pa

        return pa.Table.from_batches([each for part in parts for each in self.read(part)], schema)

    def clear(self, through: int) -> None:
        """Forget everything up to a batch. Corrections are staged as batch -1, and stay."""
        if not self._folder.is_dir():
            return
        for folder in self._folder.iterdir():
            if folder.name.isdecimal() and int(folder.name) <= through:
                shutil.rmtree(folder, ignore_errors=True)

    def remove(self, parts: Sequence[Part]) -> None:
        for part in parts:
            Path(part.place).unlink(missing_ok=True)

    def drop(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _write(path: Path, rows: Iterable[pa.RecordBatch]) -> int:
    """An Arrow stream; an empty file has no rows and no schema, and cannot be read."""
    import pyarrow as pa

    count, writer = 0, None
    with pa.OSFile(str(path), "wb") as file:
        for batch in rows:
            if writer is None:
                writer = pa.ipc.new_stream(file, batch.schema)
            writer.write_batch(batch)
            count += batch.num_rows
        if writer is not None:
            writer.close()
    return count
