"""Two things that compiled code cannot say in Python: copy bytes, and read eight of them at once.

A loop over bytes says the same, but numba checks each index for being negative, and in a large function
that keeps LLVM from making anything better of it: ten times slower. The caller must have checked both
ends; nothing is checked here.
"""

from __future__ import annotations

from headwater.client.decode import machine  # noqa: F401, isort: skip  (first: numba reads it)

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _copy_bytes(typing: Any, to: Any, to_at: Any, source: Any, source_at: Any, size: Any) -> Any:
    """`to[to_at:to_at + size] = source[source_at:source_at + size]`, both one-dimensional bytes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        there, there_at, here, here_at, count = arguments
        first = context.make_array(signature.args[0])(context, builder, there).data
        second = context.make_array(signature.args[2])(context, builder, here).data
        cgutils.raw_memcpy(
            builder, builder.gep(first, [there_at]), builder.gep(second, [here_at]), count, 1
        )
        return context.get_dummy_value()

    return types.void(to, types.intp, source, types.intp, types.intp), generate


def _load64(typing: Any, source: Any, at: Any) -> Any:
    """The eight bytes from `at` on as an unsigned number, wherever they lie."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        here, position = arguments
        data = context.make_array(signature.args[0])(context, builder, here).data
        pointer = builder.bitcast(builder.gep(data, [position]), ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return types.uint64(source, types.intp), generate


# numba's own types would have callers pass what it passes itself.
copy_bytes: Callable[..., None] = intrinsic(_copy_bytes)
load64: Callable[..., Any] = intrinsic(_load64)
