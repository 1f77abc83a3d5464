"""Conditions and measures that look back at what was matched: their text, read into a tree.

A condition that only concerns its own row never comes here: it stays a text of Spark's SQL. Of one that
refers to other rows, the parts between its ANDs that concern the row alone stay SQL as well.

    or = and { OR and };  and = not { AND not };  not = [ NOT ] comparison
    comparison = sum [ (= | == | <> | != | < | <= | > | >= | <=>) sum | IS [NOT] NULL
                     | [NOT] BETWEEN sum AND sum | [NOT] IN (or, …) | [NOT] LIKE 'text' ]
    sum = product { (+ | -) product };  product = factor { (* | / | %) factor };  factor = [-] value
    value = NUMBER | 'text' | TRUE | FALSE | NULL | INTERVAL n UNIT … | DATE 'text' | TIMESTAMP 'text'
          | ( or ) | column | VARIABLE.column | function(…)

What is written in it (9.99, 'text') stays text as well: Spark says what it means.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from headwater.processing.durations import BadDuration, micros
from headwater.processing.patterns.errors import PatternError, mistake
from headwater.processing.patterns.trees import (
    FUNCTIONS,
    KINDS,
    Call,
    Literal,
    Row,
    RowsReference,
    Tree,
    at_end,
    refers,
)
from headwater.processing.patterns.words import END, Word, split

TIMES = ("date", "timestamp", "timestamp_ntz", "timestamp_ltz")
COMPARISONS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>")


@dataclass(frozen=True)
class Part:
    """One of the parts between the ANDs of a condition; `tree` where it refers to other rows."""

    sql: str
    tree: Tree | None


def conditions(text: str, variables: frozenset[str], own: str) -> list[Part]:
    """The parts of the condition of the variable `own` that must all hold."""
    text, where = _without(own, text), f"define {own!r}"
    words = split(text)
    if not _refers(words, variables):
        return [Part(text, None)]
    parser = _Parser(text, words, variables, where)
    parts: list[Part] = []
    while True:
        begin = parser.at
        tree = parser.negation()
        inside = text[words[begin].place : words[parser.at - 1].end]
        parts.append(Part(inside, tree if refers(tree) else None))
        if not parser.takes("and"):
            break
    if parser.peek().lower == "or":
        whole = _Parser(text, words, variables, where)
        return [Part(text, whole.everything())]
    parser.finish()
    return parts


def measure(text: str, variables: frozenset[str], where: str) -> Tree:
    """A measure: as a condition, but a column without a variable is that of the last row."""
    words = split(text)
    return at_end(_Parser(text, words, variables, where).everything())


def _without(own: str, text: str) -> str:
    """Where the condition of B says B.price, it means the row itself; blanks keep the carets right."""
    depth, functions = 0, []
    for word, after, later in zip(
        words := split(text), words[1:], [*words[2:], None], strict=False
    ):
        if after.text == "(" and word.kind == "name" and word.lower in KINDS:
            functions.append(depth)
        depth += {"(": 1, ")": -1}.get(word.text, 0)
        if word.text == ")" and functions and functions[-1] == depth:
            functions.pop()
        named = later is not None and later.kind == "name"
        if word.text == own and after.text == "." and named and not functions:
            text = text[: word.place] + " " * (after.end - word.place) + text[after.end :]
    return text


def _refers(words: list[Word], variables: frozenset[str]) -> bool:
    pairs = pairwise(words)
    return any(
        (one.text in variables and two.text == ".")
        or (one.kind == "name" and one.lower in KINDS and two.text == "(")
        for one, two in pairs
    )


class _Parser:
    def __init__(self, text: str, words: list[Word], variables: frozenset[str], where: str) -> None:
        self.text, self.words, self.variables, self.where = text, words, variables, where
        self.at = 0

    def peek(self, ahead: int = 0) -> Word:
        return self.words[min(self.at + ahead, len(self.words) - 1)]

    def takes(self, *wanted: str) -> bool:
        """Go past these words, where they come next."""
        if any(self.peek(n).lower != word for n, word in enumerate(wanted)):
            return False
        self.at += len(wanted)
        return True

    def wrong(self, sentence: str, word: Word | None = None) -> PatternError:
        place = (word or self.peek()).place
        return mistake(sentence, self.text, place, within=self.where)

    def needs(self, wanted: str) -> None:
        if not self.takes(wanted):
            raise self.wrong(f"{wanted.upper()} is missing here")

    def finish(self) -> None:
        if self.peek().kind != END:
            raise self.wrong(f"{self.peek().text!r} was not expected here")

    def everything(self) -> Tree:
        tree = self.disjunction()
        self.finish()
        return tree

    def disjunction(self) -> Tree:
        tree = self.conjunction()
        while self.takes("or"):
            tree = Call("or", (tree, self.conjunction()))
        return tree

    def conjunction(self) -> Tree:
        tree = self.negation()
        while self.takes("and"):
            tree = Call("and", (tree, self.negation()))
        return tree

    def negation(self) -> Tree:
        if self.takes("not"):
            return Call("not", (self.negation(),))
        return self._comparison()

    def _comparison(self) -> Tree:
        left = self._sum()
        if (word := self.peek()).text in COMPARISONS:
            self.at += 1
            return Call({"==": "=", "!=": "<>"}.get(word.text, word.text), (left, self._sum()))
        if self.takes("is"):
            negated = self.takes("not")
            self.needs("null")
            return _negated(Call("is null", (left,)), negated)
        negated = self.peek(1).lower in ("between", "in", "like") and self.takes("not")
        if self.takes("between"):
            least = self._sum()
            self.needs("and")
            return _negated(Call("between", (left, least, self._sum())), negated)
        if self.takes("in"):
            self.needs("(")
            return _negated(Call("in", (left, *self._list())), negated)
        if self.takes("like"):
            return _negated(Call("like", (left, self._sum())), negated)
        return left

    def _sum(self) -> Tree:
        tree = self._product()
        while (sign := self.peek().text) in ("+", "-"):
            self.at += 1
            tree = Call(sign, (tree, self._product()))
        return tree

    def _product(self) -> Tree:
        tree = self._factor()
        while (sign := self.peek().text) in ("*", "/", "%"):
            self.at += 1
            tree = Call(sign, (tree, self._factor()))
        return tree

    def _factor(self) -> Tree:
        if self.takes("-"):
            return Call("negative", (self._factor(),))
        return self._value()

    def _value(self) -> Tree:
        word = self.peek()
        if word.kind in ("number", "string"):
            self.at += 1
            return Literal(word.text)
        if word.kind == "name" and word.lower in ("true", "false", "null"):
            self.at += 1
            return Literal(word.text)
        if word.lower in TIMES and self.peek(1).kind == "string":
            self.at += 2
            return Literal(self.text[word.place : self.words[self.at - 1].end])
        if word.lower == "interval":
            return self._interval()
        if self.takes("("):
            tree = self.disjunction()
            self.needs(")")
            return tree
        if word.kind != "name" or word.lower in ("case", "cast"):
            what = (
                "the text ends too early"
                if word.kind == END
                else f"{word.text!r} is not possible here"
            )
            raise self.wrong(f"{what}; make it a column of its own before `match`")
        return self._named(word)

    def _named(self, word: Word) -> Tree:
        if self.peek(1).text == "(":
            return self._function(word)
        self.at += 1
        if word.text in self.variables:
            if not self.takes("."):
                raise self.wrong(f"which column of {word.text}? Say {word.text}.column", word)
            column = self.peek()
            if column.kind != "name":
                raise self.wrong(f"the name of a column of {word.text} is missing here")
            self.at += 1
            return RowsReference("last", word.text, self._path(column))
        return Row(self._path(word))

    def _path(self, word: Word) -> str:
        """A column, or a field inside one."""
        end = word.end
        while self.peek().text == "." and self.peek(1).kind == "name":
            end = self.peek(1).end
            self.at += 2
        return self.text[word.place : end]

    def _function(self, word: Word) -> Tree:
        name = word.lower
        if name in KINDS:
            self.at += 2
            return self._rows_reference(word)
        if name in FUNCTIONS:
            self.at += 2
            return Call(name, tuple(self._list()))
        if name == "prev":
            raise self.wrong(
                "prev() would look at rows before the match; last(column, 1) is the row before, within it",
                word,
            )
        begin = self.at
        inside = self._inside(1)
        if any(each.text in self.variables and after.text == "." for each, after in inside):
            raise self.wrong(
                f"{word.text}() can only be asked about the row itself, not about other rows", word
            )
        return Row(self.text[self.words[begin].place : self.words[self.at - 1].end])

    def _inside(self, ahead: int) -> list[tuple[Word, Word]]:
        """Go past a ( and its ); what is between them, each word with the next one."""
        opened, depth, begin = self.peek(ahead), 0, self.at + ahead
        self.at = begin
        while True:
            word = self.peek()
            depth += {"(": 1, ")": -1}.get(word.text, 0)
            if word.kind == END:
                raise self.wrong("this ( is never closed", opened)
            self.at += 1
            if depth == 0:
                return list(zip(self.words[begin:], self.words[begin + 1 : self.at], strict=False))

    def _list(self) -> list[Tree]:
        found = [self.disjunction()]
        while self.takes(","):
            found.append(self.disjunction())
        self.needs(")")
        return found

    def _interval(self) -> Tree:
        """`INTERVAL 5 MINUTES` or `INTERVAL '5 minutes'`."""
        begin = self.peek()
        self.at += 1
        said = str(self.peek().value)
        if self.peek().kind == "string":
            self.at += 1
        else:
            while self.peek().kind == "number" and self.peek(1).kind == "name":
                self.at += 2
            said = self.text[begin.end : self.words[self.at - 1].end]
        try:
            micros(said)
        except BadDuration:
            raise self.wrong("an interval is written INTERVAL 5 MINUTES", begin) from None
        return Literal(self.text[begin.place : self.words[self.at - 1].end])

    def _rows_reference(self, function: Word) -> Tree:
        """`last(A.price, 1)`, of which the name and the parenthesis are behind us."""
        kind, begin, depth = function.lower, self.at, 0
        while depth or self.peek().text not in (",", ")"):
            word = self.peek()
            if word.kind == END:
                raise self.wrong("this ( is never closed", self.words[begin - 1])
            depth += {"(": 1, ")": -1}.get(word.text, 0)
            self.at += 1
        inside = self.words[begin : self.at]
        offset = self._offset(kind) if self.takes(",") else 0
        self.needs(")")
        if not inside:
            raise self.wrong(f"{function.text}() of what? Say {function.text}(A.column)", function)
        variable, sql = self._argument(inside)
        if sql is None and kind != "count":
            raise self.wrong(f"which column of {variable or 'the rows'}?", inside[0])
        return RowsReference(kind, variable, sql, offset)

    def _offset(self, kind: str) -> int:
        word = self.peek()
        if kind not in ("first", "last") or not isinstance(word.value, int):
            raise self.wrong("only first and last take a second argument, how many rows away")
        self.at += 1
        return word.value

    def _argument(self, inside: list[Word]) -> tuple[str | None, str | None]:
        """The variable, and the SQL over each of its rows: without the variable's name."""
        texts = [word.text for word in inside]
        if texts == ["*"]:
            return None, None
        if texts[0] in self.variables and texts[1:] in ([], [".", "*"]):
            return texts[0], None
        found: set[str] = set()
        sql, last = "", inside[0].place
        for word, after in zip(inside, [*inside[1:], self.peek()], strict=True):
            if word.text in self.variables and after.text == ".":
                found.add(word.text)
                sql, last = sql + self.text[last : word.place], after.end
        sql += self.text[last : inside[-1].end]
        if len(found) > 1:
            raise self.wrong("a function looks at the rows of one variable", inside[0])
        return (found.pop() if found else None), sql


def _negated(tree: Tree, negated: bool) -> Tree:
    return Call("not", (tree,)) if negated else tree
