"""A package that a target needs and this installation lacks, said in one sentence.

Called at the top of the modules that import such a package, while the registry loads them.

Also here: which errors pass by themselves: after these, and no others, a call may succeed later
(`Unavailable`).

A list of what is known to pass, for every target. What is not on it is not waited for: a person is told
(`Misfit`), since a column that was dropped or a password that is wrong stays so.
"""

from __future__ import annotations

import errno

from headwater.views.targets.registry import NoSuchTarget


def missing(error: ModuleNotFoundError, target: str, extra: str) -> NoSuchTarget:
    """What to raise in place of the import's own error."""
    return NoSuchTarget(
        f"{target}: needs the package {error.name}, which is not installed",
        hint=f"pip install 'headwater[{extra}]'",
    )


_ERRNOS = (
    errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN,
    errno.EBUSY, errno.EINTR, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNREFUSED, errno.ECONNRESET,
    errno.EPIPE, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENOLCK,
)  # fmt: skip
_SAID = (
    "no space left", "disk quota exceeded", "input/output error", "too many open files",
    "cannot allocate memory", "temporarily unavailable", "device or resource busy",
    "stale file handle", "timed out", "connection refused", "connection reset", "broken pipe",
)  # fmt: skip


def os_error_passes(error: OSError) -> bool:
    return error.errno in _ERRNOS


def text_passes(text: str) -> bool:
    """For libraries that hand on the system's words and no number."""
    folded = text.casefold()
    return any(each in folded for each in _SAID)
