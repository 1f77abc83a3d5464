"""Arrays that are used again, but never while somebody looks at them."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from headwater.client.decode import memory
from headwater.client.decode.memory import Pool

MEGABYTE = 1 << 20


def test_what_is_let_go_is_used_again() -> None:
    pool = Pool()
    first = pool.take(MEGABYTE, np.uint8)
    place = first.ctypes.data
    del first
    assert pool.take(MEGABYTE - 7, np.uint8).ctypes.data == place


def test_what_somebody_refers_to_is_left_alone() -> None:
    """Also through an Arrow buffer, an array over it, and a slice of that."""
    pool = Pool()
    array = pool.take(MEGABYTE // 4, np.int32)
    array[:] = 7
    column = pa.Array.from_buffers(pa.int32(), 100, [None, pa.py_buffer(array[:100])])
    kept = pa.record_batch([column.slice(50)], ["n"])
    del array, column
    for _ in range(4):
        pool.take(MEGABYTE // 4, np.int32)[:] = 9
    assert kept.column(0).to_pylist() == [7] * 50


def test_kinds_of_any_width_are_handed_out() -> None:
    pool = Pool()
    for kind in (np.uint8, np.int32, np.int64):
        for count in (0, 3, 100_000):
            found = pool.take(count, kind)
            assert (len(found), found.dtype) == (count, kind)
            assert found.flags.c_contiguous


def test_no_more_is_kept_than_the_bound() -> None:
    pool = Pool()
    held = [pool.take(memory.HELD_BYTES_MAX // 8, np.uint8) for _ in range(20)]
    assert sum(map(len, pool._held)) <= memory.HELD_BYTES_MAX
    assert len({each.ctypes.data for each in held}) == 20


def test_memory_is_free_when_the_last_who_looks_at_it_is_gone_and_not_before() -> None:
    """However it is looked at: by the array itself, a part of it, or bytes of another kind."""
    pool = Pool()
    array = pool.take(MEGABYTE, np.uint8)
    place = array.ctypes.data
    views = [array, array[5:], array[:8].view(np.int64), memoryview(array)[3:], pa.py_buffer(array)]
    del array
    while views:
        assert pool.take(MEGABYTE, np.uint8).ctypes.data != place
        views.pop(0)
    assert pool.take(MEGABYTE, np.uint8).ctypes.data == place


def test_two_threads_never_get_the_same_memory() -> None:
    pool, wrong = Pool(), []

    def use(mark: int) -> None:
        for _ in range(3_000):
            mine = pool.take(MEGABYTE // 8, np.uint8)
            mine[:8] = mark
            time.sleep(0)
            if set(mine[:8].tolist()) != {mark}:
                wrong.append(mark)
            del mine

    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(use, range(4)))
    finally:
        sys.setswitchinterval(before)
    assert wrong == []
