"""Whether every value that one JSON Schema allows is allowed by another: keyword by keyword; pure.

`differences(was, now)` says what of the old one's values the new one would refuse. The names of the rules
are Confluent's; `OPEN` objects (no additionalProperties, no patternProperties) take any property, so a
property that is *added* to one may meet data of another kind, while removing it never does; with closed
ones it is the other way round.

The comparison walks both schemas together, within the bounds of `effort`, as alternatives inside of
alternatives would else take for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headwater.schemas.bounds import DIFFERENCES_MAX
from headwater.schemas.effort import Work
from headwater.schemas.json_schema import sentences
from headwater.schemas.json_schema.rules import documents, enums, keywords, patterns, scalars
from headwater.schemas.json_schema.rules.attributes import (
    covering,
    has_default,
    is_open,
    is_typed,
    is_untyped,
    needs_of,
    prefix_of,
    properties_of,
    rest_of,
    texts_of,
)
from headwater.schemas.json_schema.rules.disjoint import Only
from headwater.schemas.json_schema.rules.pairs import matched
from headwater.schemas.json_schema.shapes import SEVERAL, Node, Shape, only_word, shape_of
from headwater.schemas.model import Difference


def differences(was: Node, now: Node) -> list[Difference]:
    comparison = _Comparison()
    comparison.compare(was, now, "#/")
    comparison._say_all(documents.narrower(was, now))
    return comparison.found[:DIFFERENCES_MAX]


class _Comparison:
    def __init__(self, work: Work | None = None) -> None:
        self.found: list[Difference] = []
        self._work = work or Work()

    def say(self, kind: str, path: str) -> None:
        if kind not in sentences.COMPATIBLE:
            self.found.append(Difference(kind, path, sentences.of(kind, path)))

    def _say_all(self, rules: Iterable[tuple[str, str]]) -> None:
        for kind, path in rules:
            self.say(kind, path)

    def _allows(self, was: Node, now: Node, path: str) -> bool:
        inside = _Comparison(self._work)
        inside.compare(was, now, path)
        return not inside.found

    def compare(self, was: Node, now: Node, path: str) -> None:
        self._work.step()
        was, now = was.followed(), now.followed()
        if only_word(was.value) != only_word(now.value):
            if self._allows(was.alone(), now.alone(), path):
                return  # or the words of `allOf` and its like say why not
        pair = (id(was.value), id(now.value))
        if pair in self._work.open:
            return  # a schema inside of itself: it is being compared
        self._work.open.add(pair)
        try:
            self._say_all(keywords.narrower(was, now, path, self._allows))
            shapes = shape_of(was), shape_of(now)
            if is_untyped(shapes[0]) and is_typed(shapes[1]):
                self.say("TYPE_NARROWED", path)
            self._shapes(*shapes, path)
        finally:
            self._work.open.discard(pair)

    def _shapes(self, was: Shape, now: Shape, path: str) -> None:
        if was.kind == "enum" != now.kind and enums.takes_each(was, now, path, self._allows):
            return
        if was.kind not in SEVERAL and now.kind in SEVERAL:
            if len(now.parts) == 1 and self._allows(was.node, now.parts[0], path):
                return
            if now.kind != "allOf" and self._is_one_of(was, now, path):
                return
            if now.kind == "allOf" and all(
                self._allows(was.node, each, path) for each in now.parts
            ):
                return
        elif was.kind in SEVERAL and now.kind not in SEVERAL:
            if was.kind == "allOf" and any(
                self._allows(each, now.node, path) for each in was.parts
            ):
                return
            if was.kind != "allOf" and all(
                self._allows(each, now.node, path) for each in was.parts
            ):
                return
        if was.kind == "none" or now.kind == "any":
            return
        if was.kind != now.kind and not (was.kind in SEVERAL and now.kind in SEVERAL):
            self.say("TYPE_CHANGED", path)
        elif was.kind in SEVERAL:
            self._several(was, now, path)
        elif was.kind in scalars.RULES:
            self._say_all(scalars.RULES[was.kind](was, now, path.rstrip("/")))
        elif was.kind in _RULES:
            _RULES[was.kind](self, was, now, path.rstrip("/"))

    # ---- several --------------------------------------------------------------------------------

    def _several(self, was: Shape, now: Shape, path: str) -> None:
        here = f"{path.rstrip('/')}/{now.kind}"
        if was.kind != now.kind and now.kind != "anyOf":
            self.say("COMBINED_TYPE_CHANGED", here)
            return
        if len(was.parts) < len(now.parts):
            self.say("PRODUCT_TYPE_EXTENDED" if now.kind == "allOf" else "SUM_TYPE_EXTENDED", here)
        elif len(was.parts) > len(now.parts):
            self.say("PRODUCT_TYPE_NARROWED" if now.kind == "allOf" else "SUM_TYPE_NARROWED", here)
        only = self._only(was, now)
        pairs = {
            number: [
                other
                for other, each in enumerate(now.parts)
                if self._allows(part, each, here) and (only is None or only.holds(number, other))
            ]
            for number, part in enumerate(was.parts)
        }
        if matched(pairs) < min(len(was.parts), len(now.parts)):
            self.say("COMBINED_TYPE_SUBSCHEMAS_CHANGED", here)

    def _only(self, was: Shape, now: Shape) -> Only | None:
        return Only(was, now, self._work.look) if now.kind == "oneOf" else None

    def _is_one_of(self, was: Shape, now: Shape, path: str) -> bool:
        only = self._only(was._replace(kind="", parts=(was.node,)), now)
        return any(
            self._allows(was.node, each, path) and (only is None or only.holds(0, number))
            for number, each in enumerate(now.parts)
        )

    def _not(self, was: Shape, now: Shape, path: str) -> None:
        # Whoever forbids less allows more: the two change places.
        if not self._allows(now.parts[0], was.parts[0], f"{path}/not"):
            self.say("NOT_TYPE_EXTENDED", f"{path}/not")

    # ---- objects --------------------------------------------------------------------------------

    def _object(self, was: Shape, now: Shape, path: str) -> None:
        before, after = properties_of(was), properties_of(now)
        required = (texts_of(was, "required"), texts_of(now, "required"))
        for name in sorted(required[1] - required[0]):
            is_new = name in after and name not in before and not is_open(was, of_writer=True)
            if not is_new and not has_default(now.node.inside(after.get(name))):
                self.say("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}")
        for name in {**before, **after}:
            here = f"{path}/properties/{name}"
            if name in before and name in after:
                self.compare(was.node.inside(before[name]), now.node.inside(after[name]), here)
            elif name in before:
                self._removed(was.node.inside(before[name]), now, name, here)
            else:
                self._added(was, now.node.inside(after[name]), name, here, name in required[1])
        self._say_all(patterns.narrower(was, now, path, self._allows))
        self._dependencies(was, now, path)
        self._additional(
            was, now, f"{path}/additionalProperties", "additionalProperties", "PROPERTIES"
        )
        self._say_all(scalars.bounds(was, now, path, "maxProperties", "minProperties"))

    def _removed(self, was: Node, now: Shape, name: str, path: str) -> None:
        if is_open(now, of_writer=False):
            return
        met = covering(now, name, of_writer=False)
        wanted = [*met.sure, *met.perhaps, *(() if met.sure else (met.rest,))]
        if met.rest.value is False and not met.sure:
            if shape_of(was).kind != "none":
                self.say("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", path)
        elif not all(self._allows(was, each, path) for each in wanted):
            self.say("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)

    def _added(self, was: Shape, now: Node, name: str, path: str, is_required: bool) -> None:
        if is_open(was, of_writer=True):
            if not self._allows(was.node.inside(True), now, path):
                self.say("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path)
            return
        met = covering(was, name, of_writer=True)
        is_covered = any(self._allows(each, now, path) for each in met.sure) or (
            not met.sure and all(self._allows(each, now, path) for each in (*met.perhaps, met.rest))
        )
        if not is_covered:
            self.say("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path)
        if is_required and not has_default(now):
            self.say("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", path)

    def _dependencies(self, was: Shape, now: Shape, path: str) -> None:
        before = needs_of(was)
        for (word, is_list, name), needed in needs_of(now).items():
            here, known = f"{path}/{word}/{name}", before.get((word, is_list, name))
            if known is None:
                self.say(f"DEPENDENCY_{'ARRAY' if is_list else 'SCHEMA'}_ADDED", here)
            elif not isinstance(needed, list) or not isinstance(known, list):
                self.compare(was.node.inside(known), now.node.inside(needed), here)
            elif not set(needed) <= set(known):
                is_more = set(known) <= set(needed)
                self.say(f"DEPENDENCY_ARRAY_{'EXTENDED' if is_more else 'CHANGED'}", here)

    def _additional(self, was: Shape, now: Shape, path: str, word: str, what: str) -> None:
        before, after = was.value.get(word, True), now.value.get(word, True)
        if before is not False and after is False:
            self.say(f"ADDITIONAL_{what}_REMOVED", path)
        elif before is True and isinstance(after, dict) and after:
            self.say(f"ADDITIONAL_{what}_NARROWED", path)
        elif isinstance(before, dict) and isinstance(after, dict):
            self.compare(was.node.inside(before), now.node.inside(after), path)

    # ---- arrays ---------------------------------------------------------------------------------

    def _array(self, was: Shape, now: Shape, path: str) -> None:
        self._say_all(scalars.bounds(was, now, path, "maxItems", "minItems"))
        if now.value.get("uniqueItems") is True and was.value.get("uniqueItems") is not True:
            self.say("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems")
        before, after = prefix_of(was), prefix_of(now)
        for number in range(max(len(before), len(after))):
            here = f"{path}/items/{number}"
            if number < len(before) and number < len(after):
                self.compare(before[number], after[number], here)
            elif number < len(after):
                rest = rest_of(was, of_writer=True)
                if not self._allows(rest, after[number], here):
                    self.say("ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
                             if rest.value is not True else "ITEM_ADDED_TO_OPEN_CONTENT_MODEL",
                             here)  # fmt: skip
            else:
                rest = rest_of(now, of_writer=False)
                if not self._allows(before[number], rest, here):
                    self.say("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL" if rest.value is False
                             else "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
                             here)  # fmt: skip
        self._rest_of_items(was, now, path)

    def _rest_of_items(self, was: Shape, now: Shape, path: str) -> None:
        before, after = rest_of(was, of_writer=True), rest_of(now, of_writer=False)
        if prefix_of(was) or prefix_of(now):
            here = f"{path}/additionalItems"
            if before.value is not False and after.value is False:
                self.say("ADDITIONAL_ITEMS_REMOVED", here)
            elif before.value is True and isinstance(after.value, dict) and after.value:
                self.say("ADDITIONAL_ITEMS_NARROWED", here)
            elif isinstance(before.value, dict):
                self.compare(before, after, here)
        else:
            self.compare(before, after, f"{path}/items")


_Rule = Callable[[_Comparison, Shape, Shape, str], None]
_RULES: dict[str, _Rule] = {
    "object": _Comparison._object,
    "array": _Comparison._array,
    "not": _Comparison._not,
}
