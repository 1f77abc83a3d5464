"""HTTP as people know it from the REST proxies of Confluent and Redpanda: /v3/clusters/…, /consumers/…, v2.

    cluster, topics, topic_settings, groups
                        what there is, made and deleted       access       who may see and do what
    records, records_v2 records in, each with its outcome     answers      lists, links, errors in their form
    consumers           records out by a consumer group       instances    those that are open, within bounds
    instance, batch, records_out
                        one member of a group; an answer of it; its records as JSON

The routes of their own (`http_in`, `feeds`) do more: positions, idempotency keys, feeds that can be resumed.
These are for programs that are there already. Internal topics are not reached by any of them.
"""

from __future__ import annotations

import weakref

from fastapi import APIRouter
from starlette.responses import Response

from headwater.edges.context import Context
from headwater.edges.rest import cluster, consumers, groups, records, topic_settings, topics
from headwater.edges.rest.answers import ErrorForm as ErrorForm
from headwater.edges.rest.instances import Instances
from headwater.edges.rest.records_v2 import in_front as in_front
from headwater.edges.services import Service

_OPEN: weakref.WeakKeyDictionary[object, Instances] = weakref.WeakKeyDictionary()
"""By the context's log."""


def instances_of(context: Context) -> Instances:
    """Those of these edges: made when first asked for."""
    found = _OPEN.get(context.log)
    if found is None:
        found = _OPEN[context.log] = Instances(context.log, context.edges.limits)
    return found


def router(context: Context) -> APIRouter:
    proxy = APIRouter(tags=["REST v3"], default_response_class=Response)
    for part in (cluster, topics, topic_settings, groups, records):
        part.add_routes(proxy, context)
    reading = APIRouter(tags=["consumers"], default_response_class=Response)
    consumers.add_routes(reading, context, instances_of(context))
    made = APIRouter()
    made.include_router(proxy)
    made.include_router(reading)
    return made


def services(context: Context) -> list[Service]:
    return [instances_of(context)]
