"""The services of an alert, put together: who looks, and who tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.browse.decoder import Decoder
from headwater.browse.filters import Filter
from headwater.edges.alerts import judge as judging
from headwater.edges.alerts import notices
from headwater.edges.alerts.config import Alert, Command, Mail, ToTopic, read
from headwater.edges.alerts.record_rules import GROUP, Follower
from headwater.edges.alerts.rules import Aggregate, Field, Matches
from headwater.edges.alerts.senders import Mailer, Runner, Teller
from headwater.edges.alerts.watcher import Counter, Watcher
from headwater.edges.context import Context
from headwater.edges.services import Service
from headwater.edges.webhooks.delivery import Sender
from headwater.edges.webhooks.poster import Poster
from headwater.edges.webhooks.subscriber import Subscriber, Wanted

PARALLEL = 4


def started(context: Context, name: str, section: Mapping[str, Any]) -> list[Service]:
    alert = read(name, section)
    wanted = Wanted(
        f"alerts.{name}.delivery",
        f"{GROUP}{name}.delivery",
        notices.TOPIC,
        lambda: _sender(alert, context),
        Filter(where=(f"alert={name}",)),
        "beginning",
        PARALLEL,
        alert.retrying,
        notices.SETTINGS,
    )
    telling = Subscriber(wanted, context.log, context.appender, context.edges.name)
    return [_looking(alert, context), telling]


def _looking(alert: Alert, context: Context) -> Service:
    log, appender, rule = context.log, context.appender, alert.rule
    decoder = Decoder(log, insists=True)
    keep = alert.filter.compiled(decoder)
    if isinstance(rule, Aggregate):
        return Counter(alert, log, appender)
    if isinstance(rule, Field):
        found = rule
        return Follower(
            *(alert, log, appender, context.edges.name),
            lambda judge: judging.Values(judge, found, keep, decoder),
        )
    if isinstance(rule, Matches):
        every_ms = alert.at_most_every_s * 1000
        return Follower(
            *(alert, log, appender, context.edges.name),
            lambda judge: judging.Matches(judge, keep, every_ms),
        )
    return Watcher(alert, log, appender, context.project)


def _sender(alert: Alert, context: Context) -> Sender:
    to = alert.to
    if isinstance(to, Mail):
        return Mailer(to)
    if isinstance(to, Command):
        return Runner(to)
    if isinstance(to, ToTopic):
        return Teller(to, context.appender)
    return Poster(to)
