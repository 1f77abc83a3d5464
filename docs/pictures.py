"""The pictures of the concepts, drawn by program: `python -m docs.pictures` writes docs/images/*.svg.

Each has a ground of its own that follows what the reader's system prefers, light or dark, so that its words
can be read on any page. tests/docs checks that the files are what this draws.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from pathlib import Path

IMAGES = Path(__file__).parent / "images"

STYLE = """
text{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.mono{font-family:ui-monospace,SFMono-Regular,Menlo,monospace;font-size:12px}
.ground{fill:#fff;stroke:#d0d7de}.soft{fill:#57606a}.strong{font-weight:600}
.box{fill:#f6f8fa;stroke:#8c959f}.log{fill:#dbe9fb;stroke:#2f6fd0}.view{fill:#e3f4e6;stroke:#2d8a43}
.warn{fill:#fdf0dc;stroke:#b45309}.line{stroke:#57606a;stroke-width:1.5;fill:none}
.dash{stroke:#57606a;stroke-width:1.5;stroke-dasharray:5 4;fill:none}.tip{fill:#57606a}
.red{fill:#b45309}.redline{stroke:#b45309;stroke-width:1.5;fill:none}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#161b22;stroke:#30363d}
.soft{fill:#9da7b3}.box{fill:#21262d;stroke:#6e7681}.log{fill:#14305c;stroke:#5b9bf5}
.view{fill:#12361d;stroke:#46b162}.warn{fill:#43300f;stroke:#f0a04b}.line,.dash{stroke:#9da7b3}
.tip{fill:#9da7b3}.red{fill:#f0a04b}.redline{stroke:#f0a04b}}
"""


class Picture:
    """Boxes, lines and words, in the order in which they are drawn."""

    def __init__(self, title: str, width: int, height: int) -> None:
        self._title, self._width, self._height = title, width, height
        self._parts: list[str] = []

    def box(self, x: int, y: int, width: int, height: int, *lines: str, kind: str = "box") -> None:
        """A box with words in its middle; the first line is strong."""
        self._parts.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'
        )
        top = y + height / 2 - 9 * (len(lines) - 1) + 4
        for place, line in enumerate(lines):
            style = "strong" if place == 0 else "soft"
            self.words(x + width / 2, top + 18 * place, line, style, "middle")

    def words(self, x: float, y: float, text: str, style: str = "", anchor: str = "start") -> None:
        self._parts.append(
            f'<text class="{style}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def cells(self, x: int, y: int, names: list[str], size: int = 44, kind: str = "log") -> None:
        """Records in a row, each with its offset below."""
        for number, name in enumerate(names):
            left = x + number * size
            self._parts.append(
                f'<rect class="{kind}" x="{left}" y="{y}" width="{size}" height="34"/>'
            )
            self.words(left + size / 2, y + 22, name, "mono", "middle")
            self.words(left + size / 2, y + 50, str(number), "soft mono", "middle")

    def arrow(self, *points: tuple[float, float], kind: str = "line") -> None:
        """A line through the points, with a tip at the last."""
        path = "L".join(f"{x:g} {y:g}" for x, y in points)
        self._parts.append(f'<path class="{kind}" d="M{path}"/>')
        (before_x, before_y), (x, y) = points[-2:]
        across, down = (x > before_x) - (x < before_x), (y > before_y) - (y < before_y)
        side_x, side_y = 4 * down, 4 * across
        back_x, back_y = x - 8 * across, y - 8 * down
        tip = "red" if kind == "redline" else "tip"
        self._parts.append(
            f'<path class="{tip}" d="M{x:g} {y:g}L{back_x + side_x:g} {back_y + side_y:g}'
            f'L{back_x - side_x:g} {back_y - side_y:g}Z"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str = "line") -> None:
        self._parts.append(f'<path class="{kind}" d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/>')

    def svg(self) -> str:
        width, height = self._width, self._height
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}" role="img">',
                f"<title>{escape(self._title)}</title>",
                f"<style>{STYLE}</style>",
                f'<rect class="ground" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8"/>',
                *self._parts,
                "</svg>\n",
            ]
        )


def flow() -> Picture:
    picture = Picture("Facts flow into the log, views flow out of it", 880, 270)
    for y, lines in (
        (28, ("databases", "captured changes")),
        (108, ("applications", "events")),
        (188, ("any Kafka client", "records")),
    ):
        picture.box(20, y, 170, 56, *lines)
        picture.arrow((190, y + 28), (262, y + 28))
    picture.box(264, 28, 150, 216, "the log", "topics of", "partitions of", "offsets", kind="log")
    picture.box(492, 76, 150, 120, "Spark", "your PySpark:", "joins, windows,", "aggregates")
    picture.arrow((414, 116), (490, 116))
    picture.words(452, 108, "read", "soft", "middle")
    picture.arrow((492, 160), (416, 160))
    picture.words(452, 178, "derived", "soft", "middle")
    for y, lines in (
        (28, ("SQL databases", "tables")),
        (92, ("Redis", "a cache")),
        (156, ("search", "an index")),
        (220, ("DuckDB, Delta", "a warehouse")),
    ):
        picture.box(716, y - 12, 144, 50, *lines, kind="view")
        picture.arrow((642, 136), (680, 136), (680, y + 13), (714, y + 13))
    return picture


def log() -> Picture:
    picture = Picture("One partition, three readers, each with its own position", 880, 250)
    picture.words(20, 34, "partition 0 of topic orders", "strong")
    picture.cells(150, 60, ["A", "B", "A", "C", "B", "A", "D", "C", "A", "B"])
    picture.words(20, 82, "oldest", "soft")
    picture.words(20, 110, "offset", "soft")
    picture.arrow((660, 77), (596, 77))
    picture.words(668, 81, "producers append here", "soft")
    for offset, y, who, what in (
        (3, 170, "billing", "slow: harms nobody"),
        (10, 170, "search view", "has all: lag 0"),
        (0, 170, "a new view", "begins at 0"),
    ):
        x = 150 + 44 * offset
        picture.arrow((x, y), (x, 122))
        picture.words(x, y + 18, who, "strong", "middle")
        picture.words(x, y + 36, f"position {offset}", "mono", "middle")
        picture.words(x, y + 54, what, "soft", "middle")
    return picture


def dual_writes() -> Picture:
    picture = Picture("Writing to two systems, and writing to the log", 880, 290)
    picture.words(20, 32, "Two writers, two systems: each has its own order", "strong")
    picture.box(20, 60, 110, 44, "writer 1", "x = 1")
    picture.box(20, 190, 110, 44, "writer 2", "x = 2")
    picture.box(270, 60, 130, 44, "database", "1, then 2: x = 2")
    picture.box(270, 190, 130, 44, "cache", "2, then 1: x = 1", kind="warn")
    picture.arrow((130, 74), (268, 74))
    picture.arrow((130, 220), (268, 220))
    picture.line(130, 92, 200, 150, "dash")
    picture.arrow((200, 150), (200, 206), (268, 206), kind="dash")
    picture.line(130, 202, 220, 140, "dash")
    picture.arrow((220, 140), (220, 92), (268, 92), kind="dash")
    picture.words(210, 268, "they differ permanently, and nobody was told", "red", "middle")
    picture.line(432, 20, 432, 270, "dash")
    picture.words(456, 32, "The log decides the order once", "strong")
    picture.box(456, 60, 90, 44, "writer 1", "x = 1")
    picture.box(456, 190, 90, 44, "writer 2", "x = 2")
    picture.cells(590, 130, ["x=1", "x=2"], 50)
    picture.arrow((501, 104), (501, 140), (588, 140))
    picture.arrow((501, 190), (501, 156), (588, 156))
    picture.box(752, 60, 108, 44, "database", "x = 2", kind="view")
    picture.box(752, 190, 108, 44, "cache", "x = 2", kind="view")
    picture.arrow((690, 142), (720, 142), (720, 82), (750, 82))
    picture.arrow((690, 152), (720, 152), (720, 212), (750, 212))
    picture.words(650, 268, "both follow it, at their own pace, to the same end", "soft", "middle")
    return picture


def views() -> Picture:
    picture = Picture("A batch and its position are one transaction of the store", 880, 270)
    picture.words(20, 32, "the log", "strong")
    picture.cells(20, 48, ["A", "B", "A", "C", "B", "A"])
    picture.line(152, 40, 152, 108, "dash")
    picture.words(156, 124, "batch 7: offsets 3, 4, 5", "soft")
    picture.arrow((284, 65), (352, 65))
    picture.box(354, 40, 150, 50, "your function", "the same every time")
    picture.arrow((504, 65), (572, 65))
    picture.box(574, 20, 286, 130, kind="view")
    picture.words(590, 44, "one transaction of the store", "strong")
    picture.words(590, 72, "rows of A, B, C", "mono")
    picture.words(590, 94, "position orders:0=6", "mono")
    picture.words(590, 116, "batch 7 of this query, epoch 2", "mono")
    picture.words(590, 138, "all of it, or nothing", "soft")
    picture.words(20, 180, "killed before it", "strong")
    picture.words(220, 180, "the batch comes again and is written", "soft")
    picture.words(20, 206, "killed after it", "strong")
    picture.words(220, 206, "the batch comes again; the store has batch 7 and ignores it", "soft")
    picture.words(20, 232, "an old writer wakes up", "strong")
    picture.words(220, 232, "its epoch is 1: it is refused", "soft")
    return picture


def rebuild() -> Picture:
    picture = Picture("A rebuild: a second version from offset 0, then the switch", 880, 230)
    picture.cells(150, 30, ["A", "B", "A", "C", "B", "A", "D", "C", "A", "B"])
    picture.words(20, 52, "the log", "strong")
    picture.box(150, 104, 440, 34, "version 1: serves readers, and goes on", kind="view")
    picture.box(150, 154, 270, 34, "version 2: from offset 0 …", kind="log")
    picture.arrow((420, 171), (588, 171), kind="dash")
    picture.words(500, 190, "until it has caught up", "soft", "middle")
    picture.arrow((590, 121), (630, 121))
    picture.words(638, 117, "the switch: one transaction", "strong")
    picture.words(638, 135, "readers see version 2 from then on,", "soft")
    picture.words(638, 153, "never an older state", "soft")
    picture.words(150, 214, "--back shows version 1 again; it stays until --drop", "soft")
    return picture


def time() -> Picture:
    picture = Picture("When it happened, when it arrived, and the watermark", 880, 330)
    picture.line(70, 270, 70, 40)
    picture.arrow((70, 270), (840, 270))
    picture.arrow((70, 270), (70, 30))
    picture.words(840, 292, "arrives (offset)", "soft", "end")
    picture.words(20, 22, "happened (event time)", "soft")
    for place, (minute, late) in enumerate(
        ((1, False), (2, False), (4, False), (3, False), (6, False), (1, True), (7, False))
    ):
        x, y = 130 + place * 96, 262 - minute * 30
        kind = "warn" if late else "log"
        picture.box(x - 24, y - 13, 48, 26, f"12:0{minute}", kind=kind)
    steps = ((178, 262), (274, 262), (274, 202), (466, 202), (466, 142), (658, 142), (658, 112))
    for (x1, y1), (x2, y2) in pairwise(steps):
        picture.line(x1, y1, x2, y2, "redline")
    picture.arrow((658, 112), (756, 112), kind="redline")
    picture.words(762, 116, "watermark", "red")
    picture.words(642, 236, "late: to a topic of its own, counted", "red")
    words = "the watermark is the latest time seen, minus how long one waits: here two minutes"
    picture.words(450, 318, words, "soft", "middle")
    return picture


def files() -> dict[Path, str]:
    """Every picture with its content."""
    drawn = {
        "flow": flow(),
        "log": log(),
        "dual-writes": dual_writes(),
        "views": views(),
        "rebuild": rebuild(),
        "time": time(),
    }
    return {IMAGES / f"{name}.svg": picture.svg() for name, picture in drawn.items()}


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
    print(f"docs/images: {len(files())} pictures")


if __name__ == "__main__":
    main()
