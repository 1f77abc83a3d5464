"""What a compiled reader of values has found, slot by slot, as Arrow's arrays.

Called by the columns of Avro and of Protobuf: each has a program that walks the bytes of its format and notes
for every slot and row a number or a place, a length, and whether it is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headwater.spark.source.values.avro_columns.program import bits, gather, text_ends


@dataclass
class Found:
    """`wanted`: rows that are not null; `verdicts`: 1 for what is none of its schema."""

    data: NDArray[np.uint8]
    ends: NDArray[np.int32]
    wanted: NDArray[np.uint8]
    found: NDArray[np.int64]
    lengths: NDArray[np.int32]
    there: NDArray[np.uint8]
    verdicts: NDArray[np.uint8]

    @classmethod
    def of(cls, column: pa.Array, slots: int) -> Self:
        """Nothing yet, of a column of bytes."""
        rows, begin = len(column), column.offset
        return cls(
            data=np.frombuffer(column.buffers()[2] or b"\0", np.uint8),
            ends=np.frombuffer(column.buffers()[1], np.int32)[begin : begin + rows + 1],
            wanted=np.asarray(column.is_valid()).astype(np.uint8),
            found=np.zeros((slots, rows), np.int64),
            lengths=np.zeros((slots, rows), np.int32),
            there=np.zeros((slots, rows), np.uint8),
            verdicts=np.zeros(rows, np.uint8),
        )

    @property
    def rows(self) -> int:
        return self.found.shape[1]

    def texts(self, kind: pa.DataType, slot: int, there: NDArray[np.uint8]) -> pa.Array:
        ends = np.empty(self.rows + 1, np.int32)
        out = np.empty(text_ends(self.lengths[slot], there, ends), np.uint8)
        gather(self.data, self.found[slot], there, ends, out)
        buffers = [valid(there), pa.py_buffer(ends), pa.py_buffer(out)]
        return pa.Array.from_buffers(kind, self.rows, buffers)

    def numbers(self, kind: pa.DataType, values: np.ndarray, there: NDArray[np.uint8]) -> pa.Array:
        buffer = pa.py_buffer(np.ascontiguousarray(values))
        return pa.Array.from_buffers(kind, self.rows, [valid(there), buffer])


def struct(kind: pa.StructType, arrays: list[pa.Array], there: NDArray[np.uint8]) -> pa.Array:
    mask = pa.array(there == 0) if not there.all() else None
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)


def valid(there: NDArray[np.uint8]) -> pa.Buffer | None:
    return None if there.all() else pa.py_buffer(bits(there))
