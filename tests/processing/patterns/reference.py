"""The definition in docs/patterns.md, word for word and without a thought for speed.

For each row that may begin a match: every way in which the pattern can take rows from there on, the
preferred one first, by plain backtracking over the tree; the first way is the match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.processing.patterns import syntax


@dataclass(frozen=True)
class Row:
    time: int
    x: int | None


Path = tuple[tuple[str | None, Row], ...]
"""The rows of a way so far, each with the variable that it is bound to."""
Condition = Callable[[Row, Path], bool]
"""Whether a row may be bound; the path ends with this very row, bound to the variable."""


@dataclass(frozen=True)
class Found:
    first: int
    path: Path
    timed_out: bool = False


@dataclass
class Reference:
    tree: syntax.Node
    define: Mapping[str, Condition]
    within: int
    skip: str = "past last row"
    timeouts: bool = False
    _rows: Sequence[Row] = ()
    _end: int = 0
    _began: list[Path] = field(default_factory=list)

    def matches(self, rows: Sequence[Row]) -> list[Found]:
        self._rows = rows
        found, start = [], 0
        while start < len(rows):
            latest = rows[start].time + self.within
            self._end = sum(row.time <= latest for row in rows)
            self._began = []
            ways = ((at, path) for at, path, _ in self._ways(self.tree, start, (), False))
            match = next((way for way in ways if way[0] > start), None)
            if match is not None:
                found.append(Found(start, match[1]))
                start = self._next_start(start, *match)
                continue
            if self.timeouts and self._began:
                found.append(Found(start, self._began[0], timed_out=True))
            start += 1
        return found

    def _next_start(self, start: int, end: int, path: Path) -> int:
        if self.skip == "past last row":
            return end
        if self.skip == "to next row":
            return start + 1
        _, which, variable = self.skip.split()
        places = [start + n for n, (name, _) in enumerate(path) if name == variable]
        if not places:
            return start + 1
        return max(start + 1, places[0] if which == "first" else places[-1])

    def _ways(
        self, node: syntax.Node, at: int, path: Path, ended: bool
    ) -> Iterator[tuple[int, Path, bool]]:
        if isinstance(node, syntax.One | syntax.Not):
            yield from self._row(node, at, path, ended)
        elif isinstance(node, syntax.End):
            if at == self._end:
                yield at, path, True
        elif isinstance(node, syntax.Either):
            for choice in node.choices:
                yield from self._ways(choice, at, path, ended)
        elif isinstance(node, syntax.Sequence):
            yield from self._sequence(node.parts, at, path, ended)
        else:
            yield from self._repeat(node, 0, at, path, ended)

    def _row(
        self, node: syntax.One | syntax.Not, at: int, path: Path, ended: bool
    ) -> Iterator[tuple[int, Path, bool]]:
        if ended:
            return
        if at == self._end:
            if path:
                self._began.append(path)
            return
        row = self._rows[at]
        if isinstance(node, syntax.One):
            if self._holds(node.variable, row, path):
                yield at + 1, (*path, (node.variable, row)), ended
        elif not any(self._holds(name, row, path) for name in node.variables):
            yield at + 1, (*path, (None, row)), ended

    def _holds(self, variable: str, row: Row, path: Path) -> bool:
        condition = self.define.get(variable)
        return condition is None or condition(row, (*path, (variable, row)))

    def _sequence(
        self, parts: Sequence[syntax.Node], at: int, path: Path, ended: bool
    ) -> Iterator[tuple[int, Path, bool]]:
        if not parts:
            yield at, path, ended
            return
        for way in self._ways(parts[0], at, path, ended):
            yield from self._sequence(parts[1:], *way)

    def _repeat(
        self, node: syntax.Repeat, done: int, at: int, path: Path, ended: bool
    ) -> Iterator[tuple[int, Path, bool]]:
        if done < node.least:
            for way in self._ways(node.part, at, path, ended):
                yield from self._repeat(node, done + 1, *way)
            return
        if not node.greedy:
            yield at, path, ended
        if node.most is None or done < node.most:
            for way in self._ways(node.part, at, path, ended):
                if way[0] > at:  # an iteration that takes no row is none
                    yield from self._repeat(node, done + 1, *way)
        if node.greedy:
            yield at, path, ended
