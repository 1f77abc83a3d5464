"""A package that a target needs and this installation lacks, said in one sentence.

Called at the top of the modules that import such a package, while the registry loads them.
"""

from __future__ import annotations

from headwater.views.registry import NoSuchTarget


def missing(error: ModuleNotFoundError, target: str, extra: str) -> NoSuchTarget:
    """What to raise in place of the import's own error."""
    return NoSuchTarget(
        f"{target}: needs the package {error.name}, which is not installed",
        hint=f"pip install 'headwater[{extra}]'",
    )
