"""A figure as SVG: bars with their values, readable in light and in dark.

The picture has a ground of its own, which follows what the reader's system prefers, so its words can be
read on any page. Each group of bars has its own scale: what is compared stands together.
"""

from __future__ import annotations

from html import escape

from bench.figures.model import Bar, Figure, Group, number

WIDTH, LABEL, BARS, WHO = 940, 310, 320, 96
ROW, GAP, TOP = 17, 11, 62

STYLE = """
text{font:12px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.ground{fill:#fff;stroke:#d0d7de}.title{font-size:14px;font-weight:600}.soft{fill:#57606a}
.ours{fill:#2f6fd0}.peer{fill:#aab2bd}.missed{fill:#b45309;font-weight:600}.spread{stroke:#1f2328}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#161b22;stroke:#30363d}
.soft{fill:#9da7b3}.ours{fill:#5b9bf5}.peer{fill:#6e7681}.missed{fill:#f0a04b}.spread{stroke:#e6edf3}}
"""


def svg(figure: Figure) -> str:
    parts: list[str] = []
    y = TOP
    for group in figure.groups:
        parts.append(_group(group, y))
        y += ROW * len(group.bars) + GAP
    better = "longer is better" if figure.more_is_better else "shorter is better"
    height = y + 8
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img">',
            f"<title>{escape(figure.title)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="ground" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
            f'<text class="title" x="16" y="25">{escape(figure.title)}</text>',
            f'<text class="soft" x="16" y="44">{escape(figure.unit)}; {better}; '
            "each group has its own scale</text>",
            *parts,
            "</svg>\n",
        ]
    )


def _group(group: Group, y: int) -> str:
    largest = max((bar.spread or (0, bar.value))[1] for bar in group.bars) or 1.0
    lines = [f'<text x="16" y="{y + 12}">{escape(_cut(group.label, 44))}</text>']
    for place, bar in enumerate(group.bars):
        top = y + place * ROW
        width = max(1.0, BARS * bar.value / largest)
        lines.append(
            f'<rect class="{"ours" if bar.ours else "peer"}" x="{LABEL}" y="{top + 2}" '
            f'width="{width:.1f}" height="{ROW - 4}" rx="2"/>'
        )
        lines.append(_spread(bar, largest, top))
        lines.append(
            f'<text x="{LABEL + BARS + WHO}" y="{top + 13}" text-anchor="end">'
            f"{number(bar.value)}</text>"
            f'<text class="soft" x="{LABEL + BARS + WHO + 10}" y="{top + 13}">'
            f"{escape(_cut(bar.who, 32))}</text>"
        )
    if group.verdict == "missed":
        lines.append(
            f'<text class="missed" x="16" y="{y + 27}">missed: target {escape(group.target)}, '
            f"ratio {group.ratio:.3g}</text>"
        )
    return "\n".join(line for line in lines if line)


def _spread(bar: Bar, largest: float, top: int) -> str:
    if bar.spread is None:
        return ""
    low, high = (LABEL + BARS * value / largest for value in bar.spread)
    middle = top + ROW / 2
    return f'<path class="spread" d="M{low:.1f} {middle}H{high:.1f}"/>'


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
