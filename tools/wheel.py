"""A wheel with the compiled form of the hot modules in it; hatchling calls this where it is asked for:

    HATCH_BUILD_HOOK_ENABLE_CUSTOM=true python -m build --wheel     (or: pip wheel --no-deps .)

Such a wheel is for one version of Python and one system. Without the variable the wheel is for all of them,
and has none (see `headwater/record/forms.py`).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))
import compile as compiler


class CompiledWheel(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        reason = compiler.missing()
        if reason is not None:
            raise SystemExit(f"This wheel is to be compiled, but there is {reason}.")
        root = Path(self.root) / "src"
        for each in compiler.build():
            build_data["force_include"][str(each)] = each.relative_to(root).as_posix()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
