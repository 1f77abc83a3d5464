"""Where a project's registry is, by its section [schemas].

[schemas]
listen = "127.0.0.1:8081"                       # `headwater up` serves it here
registry = "https://shop:${SECRET}@schemas:8081"  # or: it is asked there; served only with `listen` as well
"""

from __future__ import annotations

from collections.abc import Mapping

LISTEN = "127.0.0.1:8081"


def registry_of(section: Mapping[str, object]) -> str:
    """The address that is given (`registry`), or else that of the one that the project serves itself."""
    given = section.get("registry")
    if isinstance(given, str) and given:
        return given
    return f"http{'s' if section.get('tls') else ''}://{section.get('listen', LISTEN)}"


def is_served(section: Mapping[str, object]) -> bool:
    """Whether it is a part of the project, and not somebody else's."""
    return "registry" not in section or "listen" in section
