"""A browser follows a topic through a kill of the edges: its own EventSource comes back by itself.

In a file of its own, and not asynchronous: while a browser is there, its library's loop runs in this thread.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headwater.client.log import Log
from tests.console.running import chromium, look
from tests.edges.feeds.clients import put
from tests.edges.running import process, until

FOLLOW = """path => {
    window.got = []; window.opened = 0; window.ids = [];
    window.source = new EventSource(path);
    window.source.onopen = () => { window.opened += 1; };
    window.source.onmessage = event => {
        window.got.push(Number(JSON.parse(event.data).value));
        window.ids.push(event.lastEventId);
    };
}"""


def test_an_event_source_misses_nothing_and_gets_nothing_twice_when_the_edges_are_killed(
    log: Log, topic: Callable[..., str], tmp_path: Path
):
    name = topic(partitions=2)
    put(log, name, *[(str(n), n) for n in range(10)])
    with (
        chromium() as browser,
        look(browser) as page,
        process(tmp_path, "", log.bootstrap) as running,
    ):
        page.goto(f"{running.url}/healthz")
        page.evaluate(FOLLOW, f"/topics/{name}?from=beginning")
        until(lambda: page.evaluate("got.length") == 10, "what was there")
        put(log, name, *[(str(n), n) for n in range(10, 20)])
        until(lambda: page.evaluate("got.length") == 20, "what came")
        running.kill()
        put(log, name, *[(str(n), n) for n in range(20, 30)])
        running.start()
        until(lambda: page.evaluate("got.length") >= 30, "what it missed")
        put(log, name, ("end", 30))
        until(lambda: page.evaluate("got.includes(30)"), "the last one")
        assert sorted(page.evaluate("got")) == list(range(31))
        assert page.evaluate("opened") >= 2
        assert page.evaluate("ids.every(id => /^0=\\d+,1=\\d+$/.test(id))")
        page.evaluate("source.close()")
