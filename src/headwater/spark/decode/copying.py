"""Copying a run of bytes inside compiled code, as one `memcpy`.

A loop over bytes says the same, but numba checks each index for being negative, and in a large function
that keeps LLVM from making anything better of it: ten times slower. The caller must have checked both
ends; nothing is checked here.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _copy(context: Any, out: Any, to: Any, data: Any, at: Any, size: Any) -> Any:
    signature = types.void(out, types.int64, data, types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, to, source, at, size = arguments
        into = context.make_array(signature.args[0])(context, builder, target)
        origin = context.make_array(signature.args[2])(context, builder, source)
        cgutils.raw_memcpy(
            builder, builder.gep(into.data, [to]), builder.gep(origin.data, [at]), size, 1
        )
        return context.get_dummy_value()

    return signature, generate


copy: Any = intrinsic(_copy)
"""copy(out, to, data, at, size): out[to : to + size] = data[at : at + size], for arrays of bytes."""
