"""The sentence of every rule of `compatibility`, in the words that Confluent's registry has for them;
pure.
"""

from __future__ import annotations

COMPATIBLE = frozenset({"SUM_TYPE_EXTENDED", "PRODUCT_TYPE_NARROWED"})
"""Said, and no reason to refuse."""

_MISSING = (
    "The keyword at path '{path}' in the {reader} schema is not present in the {writer} schema"
)
_MORE = "The value at path '{path}' in the {reader} schema is more than its value in the {writer} schema"
_LESS = "The value at path '{path}' in the {reader} schema is less than its value in the {writer} schema"
_OTHER = "The value at path '{path}' is different between the {reader} and {writer} schema"
_FEWER = (
    "An array or combined type at path '{path}' has fewer elements in the {reader} schema than the "
    "{writer} schema"
)
_LONGER = (
    "An array or combined type at path '{path}' has more elements in the {reader} schema than the "
    "{writer} schema"
)
_TYPE = "A type at path '{path}' is different between the {reader} schema and the {writer} schema"
_OPEN = (
    "The {reader} schema has an open content model and has a property or item at path '{path}' which "
    "is missing in the {writer} schema"
)
_CLOSED = (
    "The {reader} schema has a closed content model and is missing a property or item present at path "
    "'{path}' in the {writer} schema"
)
_REQUIRED = (
    "The {reader} schema has an unopen content model and has a required property at path '{path}' "
    "which is missing in the {writer} schema"
)
_GONE = (
    "A property or item is missing in the {reader} schema but present at path '{path}' in the {writer} "
    "schema and is not covered by its partially open content model"
)
_NEW = (
    "The {reader} schema has a property or item at path '{path}' which is missing in the {writer} "
    "schema and is not covered by its partially open content model"
)
_SENTENCES = {
    "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": _OPEN,
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": _REQUIRED,
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": _CLOSED,
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": _CLOSED,
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _GONE,
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _GONE,
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _NEW,
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": _NEW,
    "PATTERN_PROPERTY_REMOVED": _GONE,
    "TYPE_CHANGED": _TYPE,
    "TYPE_NARROWED": _TYPE,
    "COMBINED_TYPE_CHANGED": _TYPE,
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": _TYPE,
    "ENUM_ARRAY_CHANGED": _TYPE,
    "PATTERN_CHANGED": _OTHER,
    "MULTIPLE_OF_CHANGED": _OTHER,
    "DEPENDENCY_ARRAY_CHANGED": _OTHER,
    "MULTIPLE_OF_EXPANDED": _MORE,
    "DEPENDENCY_ARRAY_EXTENDED": _LONGER,
    "PRODUCT_TYPE_EXTENDED": _LONGER,
    "NOT_TYPE_EXTENDED": _LONGER,
    "ADDITIONAL_PROPERTIES_REMOVED": _MISSING,
    "ADDITIONAL_ITEMS_REMOVED": _MISSING,
}
_ENDINGS = {
    "_CHANGED": _OTHER,
    "_ADDED": _MISSING,
    "_INCREASED": _MORE,
    "_DECREASED": _LESS,
    "_NARROWED": _FEWER,
}


def of(kind: str, path: str) -> str:
    """With `{reader}` and `{writer}` still to be filled in."""
    found = _SENTENCES.get(kind)
    if found is None:
        (found,) = (said for ending, said in _ENDINGS.items() if kind.endswith(ending))
    return found.replace("{path}", path)
