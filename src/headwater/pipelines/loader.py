"""Pipeline files to declarations: `read`, before Spark is started, then `load`, with a session there.

A file may need the session as soon as it is run: `@udf("long")` asks Spark what a long is.

A file is run once, as an import would; a folder stands for the `*.py` in it and below, in the order
of their names, without those that begin with `_` or `.`. A mistake in a file is one sentence with
the file and the line in it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from headwater.errors import HeadwaterError
from headwater.pipelines.declarations import DECLARED, View
from headwater.pipelines.errors import PipelineError

_LOADING = threading.RLock()
"""What files declare is gathered in one place: one at a time."""


class Source(NamedTuple):
    """A file that is Python, not yet run."""

    path: Path
    root: Path
    text: str


def read(paths: Iterable[Path]) -> list[Source]:
    """The files, each found to be Python."""
    found = []
    for path, root in _files(list(paths)):
        try:
            text = path.read_text(encoding="utf-8")
            compile(text, str(path.resolve()), "exec")
        except (SyntaxError, ValueError, OSError) as error:
            raise _unusable(error, path) from None
        found.append(Source(path, root, text))
    return found


@contextmanager
def imported_meanwhile(sources: Iterable[Source]) -> Iterator[None]:
    """Import what views over tables need while this process waits for Java: seconds of the other core."""

    def imports() -> None:
        with suppress(Exception):  # whoever needs it will say what is missing
            importlib.import_module("headwater.pipelines.driver_query")
            importlib.import_module("headwater.views.tables.follower")

    beside = threading.Thread(target=imports, name="imports")
    if any("table(" in source.text for source in sources):
        beside.start()
    try:
        yield
    finally:
        if beside.ident is not None:
            beside.join()


def load(sources: Iterable[Source]) -> list[View]:
    """Run the files and return the views they declare."""
    given = list(sources)
    with _LOADING:
        DECLARED.clear()
        for source in given:
            _run(source.path, source.root)
        views = DECLARED.views()
    if not views:
        names = (
            ", ".join(str(source.path) for source in given)
            or "this project: [pipelines] names no file"
        )
        raise PipelineError(
            f"no view is declared in {names}",
            hint="put @hw.view(NAME, to=TARGET) over a function that returns a DataFrame",
        )
    return views


def load_again(paths: Iterable[Path]) -> list[View]:
    """As `load`, with the files as they are now, helpers that they import included."""
    given = list(paths)
    with _LOADING:
        for module in modules_of(given):
            sys.modules.pop(module.__name__, None)
        return load(read(given))


def modules_of(paths: Iterable[Path]) -> list[ModuleType]:
    """Every loaded module that lies under the given paths, helpers that a file imported included."""
    roots = [path.resolve() for path in paths]
    roots = [root if root.is_dir() else root.parent for root in roots]
    return [
        module
        for module in list(sys.modules.values())
        if (file := getattr(module, "__file__", None)) and _under(Path(file), roots)
    ]


def _under(file: Path, roots: list[Path]) -> bool:
    inside = any(file.resolve().is_relative_to(root) for root in roots)
    return inside and "site-packages" not in file.parts and module_is_ours(file) is False


def module_is_ours(file: Path) -> bool:
    """Whether a file belongs to headwater itself, which workers have installed."""
    return file.resolve().is_relative_to(Path(__file__).resolve().parents[1])


def _files(paths: list[Path]) -> Iterator[tuple[Path, Path]]:
    for path in paths:
        if path.is_dir():
            found = sorted(each for each in path.rglob("*.py") if not _hidden(each, path))
            if not found:
                raise PipelineError(
                    f"the folder {path} has no Python file", hint="give a file or another folder"
                )
            yield from ((each, path) for each in found)
        elif path.is_file():
            yield path, path.parent
        else:
            raise PipelineError(
                f"there is no file or folder {path}", hint="give the path of a pipeline file"
            )


def _hidden(path: Path, root: Path) -> bool:
    return any(part[0] in "._" for part in path.relative_to(root).parts)


def _run(path: Path, root: Path) -> None:
    name = ".".join(path.relative_to(root).with_suffix("").parts)
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) == str(path.resolve()):
            return  # a file before this one has imported it
        name = f"pipelines_{name.replace('.', '_')}"  # not in the way of a library of that name
    folder = str(root.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)  # so that files of a folder can share helpers
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except HeadwaterError:
        raise
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _unusable(error, path) from error


def _unusable(error: BaseException, path: Path) -> PipelineError:
    return PipelineError(_sentence(error, path), hint="correct the file and run it again")


def _sentence(error: BaseException, path: Path) -> str:
    if isinstance(error, OSError | UnicodeDecodeError):
        return f"{path} cannot be read: {error}"
    if isinstance(error, SyntaxError) and error.filename == str(path.resolve()):
        return f"{path}, line {error.lineno} is not Python: {error.msg}"
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{path}, line {line_in(error, path)} failed: {' '.join(said.split()).rstrip('.')}"


def line_in(error: BaseException, path: Path) -> int | str:
    """The line of `path` that was being run when the error came up."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame.lineno for frame in frames if frame.filename == str(path.resolve())]
    return own[-1] or "?" if own else "?"
