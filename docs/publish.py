"""Build the site from the pages: `make docs` puts it into site/, which needs no internet to be read.

docs/ is written to be read as plain files, on a code host or in an editor; the site is a copy of it.
A copy differs in three things: pages that live elsewhere (ARCHITECTURE.md, …) have a place among the
others, links to files that are no page are plain words, and the marks of fences, which say what tests
run, are gone. The navigation is docs/index.md: each of its headings is a section, each link below it
a page (`###` makes a group of them). A page without a link there, a link without a page, and a broken
link all fail.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ELSEWHERE = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "README.md": "index.md",  # what the site begins with is docs/index.md
    "bench/README.md": "benchmarks.md",
    "src/headwater/broker/UNSUPPORTED.md": "unsupported.md",
}
"""Pages outside docs/, by the name that they have in the site."""
ASSETS = (".svg", ".png", ".webp", ".css")

_FENCE = re.compile(r"^(```+)(\w*)[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!`)(!?)\[((?:[^\]\[]|\[[^\]]*\])+)\]\(([^)\s]+)\)")
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_GROUP = re.compile(r"^### (.+)$", re.MULTILINE)

Page = tuple[str, str]
"""Its words in the navigation and the name of its copy."""
Entry = Page | tuple[str, list[Page]]
Section = tuple[str, list[Entry]]


class Broken(Exception):
    """The pages do not fit together; the message says which."""


def places() -> dict[Path, str]:
    """Every page, with the name of its copy."""
    inside = {page: page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md"))}
    return {ROOT / page: name for page, name in ELSEWHERE.items()} | inside


def copied(page: Path, name: str, names: dict[Path, str]) -> str:
    """The text of a page as it stands in the site under `name`."""
    out, end = [], 0
    text = page.read_text(encoding="utf-8")
    for fence in _FENCE.finditer(text):
        out.append(
            _LINK.sub(lambda link: _link(link, page, name, names), text[end : fence.start()])
        )
        out.append(f"{fence[1]}{fence[2]}\n{fence[0].partition(chr(10))[2]}")
        end = fence.end()
    out.append(_LINK.sub(lambda link: _link(link, page, name, names), text[end:]))
    return "".join(out)


def _link(link: re.Match[str], page: Path, name: str, names: dict[Path, str]) -> str:
    picture, words, target = link[1], link[2], link[3]
    if target.startswith(("http:", "https:", "#")):
        return link[0]
    path, hash_, place = target.partition("#")
    file = (page.parent / path).resolve()
    if not file.exists():
        raise Broken(f"{page.relative_to(ROOT)} links to {target}, which does not exist")
    if file in names:
        inside = names[file]
    elif file.is_relative_to(DOCS) and file.suffix in ASSETS:
        inside = file.relative_to(DOCS).as_posix()
    else:
        return words
    return f"{picture}[{words}]({os.path.relpath(inside, Path(name).parent)}{hash_}{place})"


def navigation(names: dict[Path, str]) -> list[Section]:
    """The sections of docs/index.md, each with its pages; complains of pages in none of them."""
    _, *parts = _SECTION.split((DOCS / "index.md").read_text(encoding="utf-8"))
    found: list[Section] = []
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        own, *groups = _GROUP.split(text)
        entries: list[Entry] = list(_pages(own, names))
        for group, pages in zip(groups[::2], groups[1::2], strict=True):
            entries.append((group, _pages(pages, names)))
        found.append((title, entries))
    found[0][1].insert(0, ("headwater", "index.md"))
    decisions = [name for name in names.values() if re.match(r"decisions/\d", name)]
    found[-1][1].extend((_title(DOCS / name), name) for name in decisions)
    _complain([name for _, entries in found for name in _names(entries)], names)
    return found


def _pages(text: str, names: dict[Path, str]) -> list[Page]:
    links = [(link[2], (DOCS / link[3]).resolve()) for link in _LINK.finditer(text)]
    return [(words, names[file]) for words, file in links if file in names]


def _names(entries: Sequence[Entry]) -> Iterator[str]:
    for _, inside in entries:
        if isinstance(inside, str):
            yield inside
        else:
            yield from _names(inside)


def _complain(listed: list[str], names: dict[Path, str]) -> None:
    if left := sorted(set(names.values()) - set(listed)):
        raise Broken(
            f"in no section of docs/index.md: {', '.join(left)}; add a line for each there"
        )
    if twice := sorted({name for name in listed if listed.count(name) > 1}):
        raise Broken(f"more than once in docs/index.md: {', '.join(twice)}")


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def stage(folder: Path) -> Path:
    """Write the copies and the configuration below `folder`; returns the latter."""
    names = places()
    sections = navigation(names)
    shutil.rmtree(folder, ignore_errors=True)
    for page, name in names.items():
        if page == ROOT / "README.md":
            continue
        copy = folder / "docs" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(copied(page, name, names), encoding="utf-8")
    for asset in DOCS.rglob("*"):
        if asset.suffix in ASSETS:
            copy = folder / "docs" / asset.relative_to(DOCS)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(asset, copy)
    config = folder / "zensical.toml"
    config.write_text(_config(sections), encoding="utf-8")
    return config


def _config(sections: list[Section]) -> str:
    where = f'docs_dir = "docs"\nsite_dir = "site"\nnav = {_list(sections)}\n'
    text = (DOCS / "zensical.toml").read_text(encoding="utf-8")
    return text.replace("[project]\n", f"[project]\n{where}", 1)


def _list(entries: Sequence[Entry | Section]) -> str:
    inner = (
        f"{{{_quoted(title)} = {_quoted(inside) if isinstance(inside, str) else _list(inside)}}}"
        for title, inside in entries
    )
    return f"[{', '.join(inner)}]"


def _quoted(text: str) -> str:
    return '"' + text.replace("`", "").replace("\\", "\\\\").replace('"', '\\"') + '"'


def publish(site: Path, folder: Path) -> None:
    """Build the site, strictly."""
    if find_spec("zensical") is None:
        raise Broken(
            "zensical, which builds the site, is not installed: pip install 'headwater[site]' in "
            "Python 3.11.5 or newer (make PYTHON=... setup chooses one)"
        )
    config = stage(folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(config)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 or not (folder / "site" / "index.html").exists():
        raise Broken(f"the site was not built:\n{done.stdout}{done.stderr}")
    shutil.rmtree(site, ignore_errors=True)
    shutil.move(folder / "site", site)


def main() -> int:
    site = ROOT / "site"
    try:
        publish(site, ROOT / "build" / "site")
    except Broken as error:
        print(f"docs: {error}", file=sys.stderr)
        return 1
    pages = sum(1 for _ in site.rglob("*.html"))
    print(f"site/: {pages} pages; open site/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
