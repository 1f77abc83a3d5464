"""What is counted, file by file: `measured(root)` gives measure → path → number. Called by `__main__`.

Only syntax is looked at: nothing is imported, and one walk over each file's tree counts everything.
"""

from __future__ import annotations

import ast
import gc
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.tidy import streams

FILE_LINES, FUNCTION_LINES = 260, 40
PRIVATE_WORDS = frozenset(
    [
        "door",
        "doors",
        "express",
        "families",
        "farewell",
        "heads",
        "keeper",
        "keepers",
        "leash",
        "mend",
        "mended",
        "mending",
        "metered",
        "moves",
        "parcel",
        "parcels",
        "remembered",
        "surroundings",
        "tabled",
        "telling",
    ]
)
"""Pictures of our own for which the field has a word (docs/glossary.md)."""
NOUNS = frozenset(
    [
        "embed",
        "feed",
        "housekeeping",
        "need",
        "ring",
        "seed",
        "setting",
        "spring",
        "string",
        "monitoring",
        "testing",
        "thing",
        "processing",
    ]
)
"""Words that end in -ing or -ed and are no participles of ours, or the names of packages."""
PUBLIC = frozenset(
    f"headwater{name}" for name in ("", ".views", ".events", ".processing", ".testing", ".edges")
)
"""The modules whose names are public (docs/python.md)."""
MEASURES = {
    "file-lines": f"lines of a file beyond {FILE_LINES}",
    "function-lines": f"lines of functions beyond {FUNCTION_LINES}",
    "broad-except": "except Exception, BaseException or nothing at all",
    "type-ignore": "type: ignore",
    "any": "Any in an annotation",
    "private-word": "a module, class or function named by a picture of our own",
    "folder-prefix": "a file whose name begins with its folder's",
    "shared-prefix": "files of a folder of which three or more begin with the same word",
    "participle": "a module that ends in -ing or -ed",
    "one-importer": "a module that only one other imports, from the same folder",
    "private-import": "a document or example that imports what is not public",
    "spark-test": "a test of `make test` that starts streams of Spark's",
}
Numbers = dict[str, dict[str, int]]
"""Measure → path → number; what is 0 is left out."""

_IGNORE = re.compile(rb"#\s*type:\s*ignore")
_FENCE = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_IMPORT = re.compile(r"^\s*(?:from|import)\s+(headwater(?:\.[\w.]+)?)(?!\w)", re.MULTILINE)
_WORD = re.compile(r"[A-Z]?[a-z]+")


def measured(root: Path) -> Numbers:
    """All numbers of a working tree."""
    found: Numbers = {name: {} for name in MEASURES}
    importers: dict[str, set[str]] = defaultdict(set)
    was_enabled = gc.isenabled()
    gc.disable()  # it would look through every tree again and again: half of the time
    try:
        for path in _files(root):
            shown = path.relative_to(root).as_posix()
            for measure, number in of_module(path, importers).items():
                if number:
                    found[measure][shown] = number
    finally:
        if was_enabled:
            gc.enable()
    lonely = (each for each in _lonely(importers) if (root / each).exists())  # a folder is no file
    found["one-importer"] = dict.fromkeys(sorted(lonely), 1)
    found["shared-prefix"] = dict(_prefixes(root))
    found["private-import"] = dict(_documents(root))
    found["spark-test"] = dict(streams.counted(root))
    return found


def _files(root: Path) -> Iterator[Path]:
    yield from sorted((root / "src" / "headwater").rglob("*.py"))


def of_module(path: Path, importers: dict[str, set[str]] | None = None) -> Counter[str]:
    """The numbers of one file; whom it imports goes to `importers` (module → those who import it)."""
    source = path.read_bytes()
    counts: Counter[str] = Counter()
    counts["file-lines"] = max(0, source.count(b"\n") - FILE_LINES)
    counts["type-ignore"] = len(_IGNORE.findall(source))
    names = [path.stem]
    imports: set[str] = set()
    module = module_of(path)
    tree = ast.parse(source)
    if b"Any" in source:
        counts["any"] = sum(type(each) is ast.Name and each.id == "Any" for each in ast.walk(tree))
    for node in _statements(tree):
        count = _COUNTERS.get(type(node))
        if count is not None:
            count(node, counts, names)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports.update(_imported(node, module))
    counts["private-word"] = sum(not PRIVATE_WORDS.isdisjoint(_words(name)) for name in names)
    counts["participle"] = int(path.stem.endswith(("ing", "ed")) and path.stem not in NOUNS)
    counts["folder-prefix"] = int(_repeats_folder(path))
    for each in imports if importers is not None else ():
        importers[each].add(module)
    return counts


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every statement, and every handler of errors; expressions, most of a tree, are left out."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            below = getattr(node, field, None)
            if type(below) is list:
                waiting.extend(below)


def _function(node: ast.FunctionDef, counts: Counter[str], names: list[str]) -> None:
    assert node.end_lineno is not None
    counts["function-lines"] += max(0, node.end_lineno - node.lineno + 1 - FUNCTION_LINES)
    names.append(node.name)


def _class(node: ast.ClassDef, counts: Counter[str], names: list[str]) -> None:
    names.append(node.name)


def _handler(node: ast.ExceptHandler, counts: Counter[str], names: list[str]) -> None:
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    broad = ("Exception", "BaseException")
    counts["broad-except"] += any(
        kind is None or (isinstance(kind, ast.Name) and kind.id in broad) for kind in kinds
    )


_COUNTERS: dict[type, Callable[..., None]] = {
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
    ast.ExceptHandler: _handler,
}


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}


def _repeats_folder(path: Path) -> bool:
    folder = path.parent.name
    return path.stem.startswith((f"{folder}_", f"{folder.removesuffix('s')}_"))


def _prefixes(root: Path) -> Iterator[tuple[str, int]]:
    """Folders with files that should be in a folder of their own, and how many. `k00_` is Kafka's number."""
    folders: dict[str, Counter[str]] = defaultdict(Counter)
    for path in _files(root):
        word, underscore, _ = path.stem.partition("_")
        if word and underscore and not re.fullmatch(r"k\d\d", word):
            folders[path.parent.relative_to(root).as_posix()][word] += 1
    for folder, words in sorted(folders.items()):
        number = sum(count for count in words.values() if count >= 3)
        if number:
            yield folder, number


# ---- who imports whom --------------------------------------------------------------------------


def module_of(path: Path) -> str:
    """`…/src/headwater/log/files.py` → `headwater.log.files`; a package is named by its folder."""
    parts = path.with_suffix("").parts
    parts = parts[len(parts) - 1 - parts[::-1].index("headwater") :]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(node: ast.Import | ast.ImportFrom, module: str) -> Iterator[str]:
    """What may be modules: of `from a import b` both `a` and `a.b`."""
    if isinstance(node, ast.Import):
        yield from (name.name for name in node.names)
    elif node.level == 0 and node.module:
        yield node.module
        yield from (f"{node.module}.{name.name}" for name in node.names)


def _lonely(importers: dict[str, set[str]]) -> Iterator[str]:
    """Modules with one importer, which is a module of the same folder."""
    for module, who in importers.items():
        if len(who) == 1 and module.startswith("headwater."):
            (only,) = who
            if only.rpartition(".")[0] == module.rpartition(".")[0] and only != module:
                yield f"src/{module.replace('.', '/')}.py"


# ---- documents ---------------------------------------------------------------------------------


def _documents(root: Path) -> Iterator[tuple[str, int]]:
    """Pages and examples that import from elsewhere than the public modules, and how often."""
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md")]
    examples = (root / "examples").rglob("*.py")
    for path in sorted([*pages, *examples]):
        text = path.read_text(encoding="utf-8")
        code = text if path.suffix == ".py" else "\n".join(_FENCE.findall(text))
        number = sum(module not in PUBLIC for module in _IMPORT.findall(code))
        if number:
            yield path.relative_to(root).as_posix(), number
