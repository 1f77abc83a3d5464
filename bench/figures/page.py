"""The page: chapters as Markdown. `files` is all that `python -m bench.figures` writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.figures.drawing import svg
from bench.figures.model import Chapter, Figure, number
from bench.figures.reading import chapters

DOCS = Path(__file__).parents[2] / "docs"
PLOTS = DOCS / "images" / "figures"

HEAD = """<!-- Written by `python -m bench.figures` from bench/results/; change it there. -->

# Figures

Every figure of the results files in `bench/results/`, beside its peers, with what it was measured on.
`make bench` measures all of them again on your machine and writes this page;
[how](../bench/README.md). Ratios are headwater's figure over the first peer's. Where there is a target it
stands in the table, met or missed; "level" means short of it by less than the rounds differ among themselves.
A thin line through a bar goes from the lowest of its rounds to the highest.
"""


def files() -> dict[Path, str]:
    """Every file with its content."""
    found = chapters()
    plots = {
        PLOTS / f"{figure.name}.svg": svg(figure) for chapter in found for figure in chapter.figures
    }
    return {DOCS / "figures.md": page(found), **plots}


def page(found: list[Chapter]) -> str:
    return "\n".join([HEAD, _summary(found), *map(_chapter, found)])


def _summary(found: list[Chapter]) -> str:
    lines = ["| targets | met | level | missed |", "|---|---|---|---|"]
    for chapter in found:
        verdicts = [group.verdict for figure in chapter.figures for group in figure.groups]
        if any(verdicts):
            counts = [str(verdicts.count(word)) for word in ("met", "level", "missed")]
            lines.append(f"| {chapter.title} | {' | '.join(counts)} |")
    return "\n".join(lines) + "\n"


def _chapter(chapter: Chapter) -> str:
    machine = "\n".join(f"| {name} | {value} |" for name, value in chapter.machine)
    about = "\n\n".join(line.strip() for line in chapter.about)
    return "\n".join(
        [
            f"## {chapter.title}\n",
            f"{about}\n",
            f"```bash\n{chapter.command}\n```\n",
            f"| `{chapter.file}` | |\n|---|---|\n{machine}\n",
            *map(_figure, chapter.figures),
        ]
    )


def _figure(figure: Figure) -> str:
    return "\n".join(
        [
            f"### {figure.title}\n",
            *([f"What is compared: {figure.detail}.\n"] if figure.detail else []),
            f"![{figure.title}: {figure.unit}](images/figures/{figure.name}.svg)\n",
            *_table(figure),
            "",
        ]
    )


def _table(figure: Figure) -> Iterator[str]:
    judged = any(group.verdict or group.target for group in figure.groups)
    more = " target | | bound by |" if judged else ""
    yield f"| | who | {figure.unit} | ratio |{more}"
    yield "|---|---|---|---|" + ("---|---|---|" if judged else "")
    for group in figure.groups:
        for place, bar in enumerate(group.bars):
            value = number(bar.value)
            if bar.spread is not None:
                value += f" ({number(bar.spread[0])} to {number(bar.spread[1])})"
            peer = group.peer
            ratio = f"{bar.value / peer.value:.3g}" if bar.ours and peer and peer.value else ""
            verdict = f"**{group.verdict}**" if group.verdict == "missed" else group.verdict
            last = f" {group.target} | {verdict} | {group.bound} |" if place == 0 else " | | |"
            label = group.label if place == 0 else ""
            yield f"| {label} | {bar.who} | {value} | {ratio} |" + (last if judged else "")
