"""How text becomes words of a search index, and a query the words it looks for. For the target and readers.

tantivy's own analyzers leave out words of 40 bytes and more, and take a sentence without spaces for one.
Here every word counts; a letter of a script that is written without spaces (Chinese, Japanese, Thai, …) is
a word by itself, and a run of them in a query is a phrase. All text is in Unicode's composed form (NFC), so
that é is found by é however it was typed. The row itself is kept as it was.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Any

import tantivy

CUT = ("default", "en_stem")
"""Tokenizers that cut text into words; `whitespace` and `raw` leave it as it is."""
_LETTER = (
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao; Burmese; Khmer
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9d"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"  # Chinese characters
)
_LETTERS = re.compile(_LETTER)
_RUN = re.compile(f"{_LETTER}+")


def open_index(folder: Path) -> Any:
    """An index with the analyzers that its words were made with."""
    return with_analyzers(tantivy.Index.open(str(folder)))


def with_analyzers(index: Any) -> Any:
    index.register_tokenizer("default", _analyzer())
    index.register_tokenizer("en_stem", _analyzer(tantivy.Filter.stemmer("english")))
    return index


def _analyzer(*filters: Any) -> Any:
    """As tantivy's own of that name, but for words that are too long."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for each in (tantivy.Filter.lowercase(), *filters):
        builder = builder.filter(each)
    return builder.build()


def words(value: Any, tokenizer: str) -> Any:
    """A text as the index is to read it; texts inside of lists and objects too."""
    if isinstance(value, str):
        if value.isascii():
            return value
        composed = unicodedata.normalize("NFC", value)
        return _LETTERS.sub(r" \g<0> ", composed) if tokenizer in CUT else composed
    if isinstance(value, list):
        return [words(each, tokenizer) for each in value]
    if isinstance(value, dict):
        return {name: words(each, tokenizer) for name, each in value.items()}
    return value


def query(text: str, tokenizer: str) -> str:
    """A query for the same words: a run of letters that are words is a phrase."""
    if text.isascii():
        return text
    composed = unicodedata.normalize("NFC", text)
    if tokenizer not in CUT:
        return composed
    # Every second part stands in quotes already, and is a phrase.
    parts = composed.split('"')
    parts[::2] = [_RUN.sub(lambda run: f'"{" ".join(run[0])}"', part) for part in parts[::2]]
    parts[1::2] = [_LETTERS.sub(r" \g<0> ", part) for part in parts[1::2]]
    return '"'.join(parts)
