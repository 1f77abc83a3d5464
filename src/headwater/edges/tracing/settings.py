"""[edges.tracing] of headwater.toml.

[edges.tracing]
otlp = "http://127.0.0.1:4318"        # a collector; /v1/traces is added
ratio = 0.01                          # of requests and of captured records that bring no trace
topics = ["shop.*"]                   # which are followed; all by default
patience_seconds = 300                # then a reader that has not come is told as failed
headers = { authorization = "${OTLP_TOKEN}" }
service = "headwater"                 # service.name
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from headwater.errors import nearest
from headwater.secrets import expand
from headwater.value_forms import are_texts, is_number, is_text, is_web_address

PATH = "/v1/traces"
_KNOWN = ("otlp", "ratio", "topics", "patience_seconds", "headers", "service")


@dataclass(frozen=True)
class Tracing:
    """Where spans go, and of which records."""

    otlp: str
    ratio: float = 0.0
    """0: only what comes with a trace is followed."""
    topics: tuple[str, ...] = ("*",)
    patience_seconds: float = 300.0
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    service: str = "headwater"

    @property
    def endpoint(self) -> str:
        base = self.otlp.rstrip("/")
        return base if base.endswith(PATH) else f"{base}{PATH}"

    def follows(self, topic: str) -> bool:
        """Topics of the log itself are nobody's."""
        return not topic.startswith("__") and any(
            fnmatchcase(topic, pattern) for pattern in self.topics
        )


def read(section: Mapping[str, Any]) -> Tracing:
    """A section that `check` has found good; its secrets come from the environment."""
    words = dict(section)
    words["topics"] = tuple(words.get("topics", Tracing.topics))
    words["headers"] = {name: expand(value) for name, value in words.get("headers", {}).items()}
    words["otlp"] = expand(words["otlp"])
    return Tracing(**words)


def check(_name: str, section: object) -> list[str]:
    """A sentence for each mistake."""
    if not isinstance(section, Mapping):
        return ["[edges.tracing] is a section with lines of its own"]
    said = [
        f"[edges.tracing] has no setting {key!r}{nearest(key, _KNOWN)}"
        for key in section
        if key not in _KNOWN
    ]
    otlp = section.get("otlp")
    if not is_web_address(otlp):
        said.append(
            f'otlp = {otlp!r} is no address of a collector, as in "http://127.0.0.1:4318"'
            if otlp is not None
            else 'otlp is missing: say where spans go, as in otlp = "http://127.0.0.1:4318"'
        )
    if not is_number(section.get("ratio", 0), 0, 1):
        said.append(f"ratio = {section['ratio']!r} is no share: a number from 0 to 1")
    if not is_number(section.get("patience_seconds", 300), 1, 86_400):
        said.append(f"patience_seconds = {section['patience_seconds']!r} is not from 1 to 86400")
    topics = section.get("topics", ["*"])
    if not isinstance(topics, list) or not topics or not are_texts(topics):
        said.append(f'topics = {topics!r} is no list of names, as in ["shop.*"]')
    headers = section.get("headers", {})
    if not isinstance(headers, Mapping) or not all(map(is_text, headers.values())):
        said.append(f"headers = {headers!r} is no table of texts")
    if not is_text(section.get("service", "headwater")):
        said.append(f"service = {section['service']!r} is no text in quotes")
    return said
