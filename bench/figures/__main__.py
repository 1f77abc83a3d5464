"""`python -m bench.figures`: write docs/figures.md and its plots again. Called at the end of `make bench`."""

from __future__ import annotations

from bench.figures.page import PLOTS, files


def main() -> None:
    written = files()
    for path in PLOTS.glob("*.svg"):
        if path not in written:
            path.unlink()
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"docs/figures.md: {len(written) - 1} plots")


if __name__ == "__main__":
    main()
