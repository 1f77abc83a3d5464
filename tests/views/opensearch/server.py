"""A search server for tests: real HTTP, answers as OpenSearch and Elasticsearch document them.

It has what the target uses: indexes with mappings, aliases, documents with sequence numbers and external
versions, bulk requests, scrolls; and it sees a document in searches only after a refresh, as they do. It is
not one of them: what their documentation does not say, nobody here knows.
"""

from __future__ import annotations

import copy
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Reply = tuple[int, Any]


class Store:
    """What the server knows. One request at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.indexes: dict[str, dict[str, Any]] = {}
        self.aliases: dict[str, set[str]] = {}
        self.scrolls: dict[str, tuple[list[Any], int]] = {}
        self.asked: list[tuple[str, str]] = []
        self.answers: list[int] = []
        """Statuses with which the next requests are answered, whatever they ask."""
        self.bulk_limit: int | None = None
        """Actions of bulk requests that are done before the connection breaks."""

    # ---- indexes and aliases ----------------------------------------------------------------------

    def put_index(self, name: str, body: Any) -> Reply:
        if name in self.indexes or name in self.aliases:
            return _error(
                400, "resource_already_exists_exception", f"index [{name}] already exists"
            )
        self.indexes[name] = {"mappings": body["mappings"], "docs": {}, "seen": {}, "seq": 0}
        return 200, {"acknowledged": True, "index": name}

    def put_mapping(self, name: str, body: Any) -> Reply:
        if name not in self.indexes:
            return self._no_index(name)
        known = self.indexes[name]["mappings"]["properties"]
        other = [each for each, kind in body["properties"].items() if known.get(each, kind) != kind]
        if other:
            return _error(
                400, "illegal_argument_exception", f"mapper [{other[0]}] cannot be changed"
            )
        known |= body["properties"]
        return 200, {"acknowledged": True}

    def get_index(self, name: str) -> Reply:
        return (200, {name: {}}) if name in self.indexes else self._no_index(name)

    def delete_index(self, name: str) -> Reply:
        if self.indexes.pop(name, None) is None:
            return self._no_index(name)
        for names in self.aliases.values():
            names.discard(name)
        return 200, {"acknowledged": True}

    def get_alias(self, name: str) -> Reply:
        found = self.aliases.get(name)
        if not found:
            return 404, {"error": f"alias [{name}] missing", "status": 404}
        return 200, {index: {"aliases": {name: {}}} for index in sorted(found)}

    def change_aliases(self, body: Any) -> Reply:
        changed = copy.deepcopy(self.aliases)
        for action in body["actions"]:
            ((what, where),) = action.items()
            if where["index"] not in self.indexes:
                return self._no_index(where["index"])
            if where["alias"] in self.indexes:
                reason = "an index exists with the same name as the alias"
                return _error(400, "invalid_alias_name_exception", reason)
            names = changed.setdefault(where["alias"], set())
            names.add(where["index"]) if what == "add" else names.discard(where["index"])
        self.aliases = changed
        return 200, {"acknowledged": True}

    def refresh(self, name: str) -> Reply:
        if name not in self.indexes:
            return self._no_index(name)
        index = self.indexes[name]
        index["seen"] = {id: d["_source"] for id, d in index["docs"].items() if "_source" in d}
        return 200, {"_shards": {"failed": 0}}

    # ---- documents --------------------------------------------------------------------------------

    def get(self, name: str, id: str) -> Reply:
        if name not in self.indexes:
            return self._no_index(name)
        found = self.indexes[name]["docs"].get(id)
        if found is None or "_source" not in found:
            return 404, {"_index": name, "_id": id, "found": False}
        return 200, {"_index": name, "_id": id, "found": True, **found}

    def write(self, name: str, id: str, source: Any, asked: dict[str, str]) -> Reply:
        """Index or, without a source, delete one document."""
        if name not in self.indexes:
            return self._no_index(name)
        if not 1 <= len(id.encode()) <= 512:
            reason = f"id [{id[:20]}] is too long or empty"
            return _error(400, "illegal_argument_exception", reason)
        index = self.indexes[name]
        known = index["docs"].get(id)
        there = known is not None and "_source" in known
        if asked.get("op_type") == "create" and there:
            return _error(409, "version_conflict_engine_exception", f"[{id}]: document exists")
        if "if_seq_no" in asked and (not there or str(known["_seq_no"]) != asked["if_seq_no"]):
            return _error(409, "version_conflict_engine_exception", f"[{id}]: required seqNo")
        version = known["_version"] + 1 if known else 1
        if asked.get("version_type") == "external_gte":
            version = int(asked["version"])
            if known and version < known["_version"]:
                return _error(409, "version_conflict_engine_exception", f"[{id}]: version conflict")
        if source is not None and (wrong := _unfit(source, index["mappings"])):
            return _error(400, "mapper_parsing_exception", f"failed to parse field [{wrong}]")
        document = {"_version": version, "_seq_no": index["seq"], "_primary_term": 1}
        index["seq"] += 1
        index["docs"][id] = document if source is None else {**document, "_source": source}
        if asked.get("refresh") == "true":
            self.refresh(name)
        missing = source is None and not there
        result = "not_found" if missing else "deleted" if source is None else "updated"
        status = 404 if missing else 200 if there else 201
        return status, {"_index": name, "_id": id, "result": result, **document}

    def bulk(self, lines: list[str]) -> Reply | None:
        items, place = [], 0
        while place < len(lines):
            ((what, asked),) = json.loads(lines[place]).items()
            source = json.loads(lines[place + 1]) if what == "index" else None
            place += 1 if source is None else 2
            if self.bulk_limit is not None:
                self.bulk_limit -= 1
                if self.bulk_limit < 0:
                    return None
            words = {k: str(v) for k, v in asked.items() if not k.startswith("_")}
            status, said = self.write(asked["_index"], asked["_id"], source, words)
            items.append({what: {"status": status, **said}})
        return 200, {"errors": any(next(iter(i.values()))["status"] >= 300 for i in items),
                     "items": items}  # fmt: skip

    # ---- searching --------------------------------------------------------------------------------

    def search(self, name: str, body: Any, scroll: bool) -> Reply:
        name = next(iter(self.aliases.get(name, ())), name)
        if name not in self.indexes:
            return self._no_index(name)
        ((kind, what),) = body["query"].items()
        hits = [
            {"_index": name, "_id": id, "_score": 1.0, "_source": source}
            for id, source in self.indexes[name]["seen"].items()
            if _fits(kind, what, id, source)
        ]
        if not scroll:
            begin = body.get("from", 0)
            return 200, {"hits": {"hits": hits[begin : begin + body["size"]]}}
        id = f"scroll-{len(self.scrolls)}"
        self.scrolls[id] = (hits, body["size"])
        return self.more(id)

    def more(self, id: str) -> Reply:
        if id not in self.scrolls:
            return _error(404, "search_context_missing_exception", f"No search context for [{id}]")
        hits, size = self.scrolls[id]
        self.scrolls[id] = (hits[size:], size)
        return 200, {"_scroll_id": id, "hits": {"hits": hits[:size]}}

    def delete_by_query(self, name: str, body: Any) -> Reply:
        ((kind, what),) = body["query"].items()
        index = self.indexes[name]
        found = [id for id, source in index["seen"].items() if _fits(kind, what, id, source)]
        for id in found:
            self.write(name, id, None, {})
        return 200, {"deleted": len(found), "failures": []}

    def _no_index(self, name: str) -> Reply:
        return _error(404, "index_not_found_exception", f"no such index [{name}]")


def _fits(kind: str, what: Any, id: str, source: dict[str, Any]) -> bool:
    if kind == "ids":
        return id in what["values"]
    if kind == "term":
        return all(source.get(name) == value for name, value in what.items())
    if kind == "simple_query_string":
        words = re.findall(r"\w+", json.dumps(list(source.values()), ensure_ascii=False).lower())
        return any(word in words for word in what["query"].lower().split())
    assert kind == "match_all", kind
    return True


def _unfit(source: dict[str, Any], mapping: dict[str, Any]) -> str | None:
    """The first field whose value cannot be what the mapping says."""
    for name, value in source.items():
        kind = mapping["properties"].get(name, {}).get("type")
        for each in _flat(value):
            if kind in ("long", "double") and each is not None:
                try:
                    float(each)
                except (TypeError, ValueError):
                    return name
            if kind == "date" and not (each is None or re.match(r"\d{4}-\d\d-\d\d", each)):
                return name
    return None


def _flat(value: Any) -> list[Any]:
    """The values of an array, those of arrays in it as well."""
    return [v for each in value for v in _flat(each)] if isinstance(value, list) else [value]


def _error(status: int, kind: str, reason: str) -> Reply:
    return status, {"error": {"type": kind, "reason": reason}, "status": status}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    store: Store

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(size).decode()
        with self.store.lock:
            self.store.asked.append((self.command, self.path))
            if self.store.answers:
                reply: Reply | None = _error(self.store.answers.pop(0), "busy", "try again")
            else:
                reply = self._route(text)
        if reply is None:
            self.close_connection = True
            return
        status, body = reply
        said = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def do_GET(self) -> None:
        self._answer()

    do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def _route(self, text: str) -> Reply | None:
        url, store = urlsplit(self.path), self.store
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        words = [unquote(word) for word in url.path.strip("/").split("/")]
        if words == ["_bulk"]:
            assert self.headers["Content-Type"] == "application/x-ndjson" and text.endswith("\n")
            return store.bulk(text.removesuffix("\n").split("\n"))
        if text:
            assert self.headers["Content-Type"] == "application/json"
        body = json.loads(text) if text else None
        match (self.command, *words):
            case ("POST", "_aliases"):
                return store.change_aliases(body)
            case ("GET", "_alias", name):
                return store.get_alias(name)
            case ("POST", "_search", "scroll"):
                return store.more(body["scroll_id"])
            case ("DELETE", "_search", "scroll"):
                return 200, {"succeeded": store.scrolls.pop(body["scroll_id"], None) is not None}
            case ("POST", name, "_refresh"):
                return store.refresh(name)
            case ("POST", name, "_search"):
                return store.search(name, body, "scroll" in asked)
            case ("POST", name, "_delete_by_query"):
                return store.delete_by_query(name, body)
            case ("GET", name, "_doc", id):
                return store.get(name, id)
            case ("PUT", name, "_doc", id):
                return store.write(name, id, body, asked)
            case ("PUT", name, "_create", id):
                return store.write(name, id, body, {**asked, "op_type": "create"})
            case ("DELETE", name, "_doc", id):
                return store.write(name, id, None, asked)
            case ("PUT", name, "_mapping"):
                return store.put_mapping(name, body)
            case ("GET", name):
                return store.get_index(name)
            case ("PUT", name):
                return store.put_index(name, body)
            case ("DELETE", name):
                return store.delete_index(name)
        raise AssertionError(f"{self.command} {self.path} is not known to this server")

    def log_message(self, *_: object) -> None:
        """Says nothing: a failing test shows what was asked."""


@contextmanager
def search_server() -> Iterator[tuple[str, Store]]:
    """Its address, and what it knows."""
    store = Store()
    handler = type("BoundHandler", (Handler,), {"store": store})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"opensearch+http://127.0.0.1:{server.server_port}", store
        finally:
            server.shutdown()
            thread.join()
