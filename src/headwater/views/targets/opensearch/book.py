"""How far a view is, in the index `headwater_views` of OpenSearch: one document for each version.

    view, version, index, epoch, batch, position, shape
    writing    the batch that is being written, null between batches

A document is only changed as it was read (`if_seq_no`, `if_primary_term`), so of two writers one is told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from headwater.client.position import Position
from headwater.views.targets.contract import Applied, Misfit, Unavailable
from headwater.views.targets.opensearch.http import Server

BOOK = "headwater_views"
_MAPPING = {
    "dynamic": False,
    "properties": {"view": {"type": "keyword"}, "version": {"type": "long"}},
}


@dataclass(frozen=True)
class Entry:
    """The document of a version, and which state of it this is."""

    fields: dict[str, Any]
    seq_no: int
    primary_term: int

    @property
    def epoch(self) -> int:
        return int(self.fields["epoch"])

    @property
    def applied(self) -> Applied | None:
        return applied_of(self.fields)


class Book:
    """The entries of one view's versions."""

    def __init__(self, server: Server, view: str, version: int) -> None:
        self._server = server
        self._view = view
        self._id = quote(f"{view}-v{version}", safe="")

    def make(self) -> None:
        """The index itself; somebody else may be quicker."""
        status, _ = self._server.ask("GET", f"/{BOOK}", also=[404])
        if status == 404:
            self._server.ask("PUT", f"/{BOOK}", {"mappings": _MAPPING}, also=[400])

    def read(self) -> Entry | None:
        status, said = self._server.ask("GET", f"/{BOOK}/_doc/{self._id}", also=[404])
        if status == 404:
            return None
        return Entry(said["_source"], said["_seq_no"], said["_primary_term"])

    def add(self, fields: dict[str, Any]) -> bool:
        """A new entry; false if there is one."""
        path = f"/{BOOK}/_create/{self._id}?refresh=true"
        return self._server.ask("PUT", path, fields, also=[409])[0] != 409

    def change(self, entry: Entry, **fields: Any) -> Entry | None:
        """The entry with these fields; None if it is no longer as it was read."""
        states = f"if_seq_no={entry.seq_no}&if_primary_term={entry.primary_term}&refresh=true"
        path = f"/{BOOK}/_doc/{self._id}?{states}"
        status, said = self._server.ask("PUT", path, {**entry.fields, **fields}, also=[409])
        if status == 409:
            return None
        return Entry({**entry.fields, **fields}, said["_seq_no"], said["_primary_term"])

    def widen(
        self,
        index: str,
        mapping: Mapping[str, Mapping[str, object]],
        types: Mapping[str, str],
        key: tuple[str, ...],
    ) -> None:
        """Let an index, and its entry, have the fields of a mapping that it has not."""
        entry = self.read()
        known = {} if entry is None else entry.fields.get("types") or {}
        new = {name: kind for name, kind in types.items() if name not in known}
        if entry is None or not known or not new:
            return
        fields = {name: mapping["properties"][name] for name in new}
        self._server.ask("PUT", f"/{index}/_mapping", {"properties": fields})
        before = json.loads(entry.fields["shape"])["mapping"]
        wider = {**before, "properties": {**before["properties"], **fields}}
        if self.change(entry, shape=shape_text(wider, key), types={**known, **new}) is None:
            raise Unavailable(f"the entry of {index} was changed meanwhile")

    def remove(self) -> None:
        self._server.ask("DELETE", f"/{BOOK}/_doc/{self._id}?refresh=true", also=[404])

    def versions(self) -> dict[int, Applied | None]:
        asked = {"query": {"term": {"view": self._view}}, "size": 1000}
        status, said = self._server.ask("POST", f"/{BOOK}/_search", asked, also=[404])
        if status == 404:
            return {}
        found = [hit["_source"] for hit in said["hits"]["hits"]]
        return {f["version"]: applied_of(f) for f in sorted(found, key=lambda f: f["version"])}

    def others(self) -> list[tuple[str, str]]:
        """View and alias of what is not this view's."""
        asked = {"query": {"match_all": {}}, "size": 1000}
        status, said = self._server.ask("POST", f"/{BOOK}/_search", asked, also=[404])
        found = [] if status == 404 else [hit["_source"] for hit in said["hits"]["hits"]]
        return [
            (each["view"], each["index"].removesuffix(f"-v{each['version']}"))
            for each in found
            if each["view"] != self._view
        ]


def make_index(server: Server, index: str, body: Mapping[str, object]) -> None:
    status, _ = server.ask("PUT", f"/{index}", body, also=[400])
    if status == 400:
        raise Misfit(
            f"there is an index {index} already, which is not this view's",
            hint="name another one with the option table",
        )


def applied_of(fields: dict[str, Any]) -> Applied | None:
    if fields["batch"] is None:
        return None
    position = Position.from_json(fields["position"])
    return Applied(int(fields["batch"]), int(fields["epoch"]), position)


def said_of(applied: Applied) -> dict[str, Any]:
    """The fields of a commit."""
    return {
        "epoch": applied.epoch,
        "batch": applied.batch,
        "position": applied.position.to_json(),
        "writing": None,
    }


def shape_text(mapping: dict[str, Any], key: tuple[str, ...]) -> str:
    return json.dumps({"key": list(key), "mapping": mapping}, sort_keys=True)
