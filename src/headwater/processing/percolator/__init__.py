"""Search on the stream: every document that passes is matched against all stored queries.

match     documents and stored queries to pairs of both
queries   the topic in which queries are stored: key = its id, value = {"query": "…"}, none = removed
"""

from headwater.processing.percolator.matcher import match
from headwater.processing.percolator.query_topic import BadQuery, queries

__all__ = ["BadQuery", "match", "queries"]
