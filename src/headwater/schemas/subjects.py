"""Names of subjects: in which context one is, and the one spelling that it has in the topic; pure.

`orders-value` is in the default context `.`; `:.team:orders-value` in the context `.team`. Ids and
lookups by id are of one context. `:.:orders-value` is `orders-value`; `:.team:` is the context itself
(its config, its mode).
"""

from __future__ import annotations

import re

from headwater.schemas.errors import invalid_subject

DEFAULT = "."
WILDCARD = ":*:"
"""All contexts, where subjects are listed."""
CHARACTERS_MAX = 1024
CONTEXT_GLOBAL = "__GLOBAL"
_NO_CONTEXT = re.compile(r"(:\.:)+")
"""However often the default context is said, what follows is looked at as if it stood alone: else a name
would be of one context for whoever asks once, and of another for whoever asks twice."""


def normalized(name: str) -> str:
    """The spelling under which it is kept."""
    context, bare = split(name)
    return bare if context == DEFAULT else f":{context}:{bare}"


def split(name: str) -> tuple[str, str]:
    """(context, name inside of it)."""
    name = _NO_CONTEXT.sub("", name, count=1) if name.startswith(":.:") else name
    if not name.startswith(":."):
        return DEFAULT, name
    end = name.find(":", 2)
    if end < 0:
        return name[1:], ""
    return name[1:end], name[end + 1 :]


def context_of(name: str) -> str:
    return split(name)[0]


def bare_of(name: str) -> str:
    return split(name)[1]


def is_context(name: str) -> bool:
    """Whether it names a context and no subject of it."""
    return name.startswith(":.") and not bare_of(name)


def qualified(context: str, name: str) -> str:
    """A name as it is meant beside others of a context: references say it without."""
    return normalized(name) if name.startswith(":.") else normalized(f":{context}:{name}")


def check(name: str) -> str:
    """The kept spelling of a subject that is to be written. Raises invalid_subject."""
    found = normalized(name)
    bare = bare_of(found)
    good = bare and len(found) <= CHARACTERS_MAX and bare.isprintable() and bare == bare.strip()
    if not good or bare in (CONTEXT_GLOBAL, "__EMPTY") or not _is_context_name(context_of(found)):
        raise invalid_subject(name)
    return found


def _is_context_name(context: str) -> bool:
    return context == DEFAULT or all(
        each.isalnum() or each in "-_." for each in context.removeprefix(".")
    )
