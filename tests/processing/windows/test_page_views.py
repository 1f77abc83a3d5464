"""The example of page views: raw events and a cube from one log agree with each other."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pytest

from examples.page_views import ask
from headwater.pipelines import loader
from headwater.testing.rehearsal import Rehearsal

HOURS = 3
PIPELINES = Path(ask.__file__).with_name("pipelines.py")


@pytest.mark.timeout(900)
def test_the_warehouse_and_the_cube_agree(headwater_test: Rehearsal, tmp_path: Path) -> None:
    chance = random.Random(7)
    start = headwater_test.now.replace(minute=0, second=0, microsecond=0)
    views = [
        {
            "site": chance.choice(["blog", "shop"]),
            "page": f"/{chance.randrange(5)}",
            "visitor": f"v{chance.randrange(300)}",
            "load_ms": chance.expovariate(0.01),
            "at": start - dt.timedelta(seconds=chance.randrange(HOURS * 3600)),
        }
        for _ in range(3000)
    ]
    places = {name: tmp_path / f"{name}.duckdb" for name in ("page_views_raw", "page_cube")}
    declared = loader.load(loader.read([PIPELINES]))
    assert {view.name for view in declared} == set(places)
    headwater_test.send("page_views", *views)
    headwater_test.run("page_views_raw", to=f"duckdb:{places['page_views_raw']}")
    headwater_test.run("page_cube", to=f"duckdb:{places['page_cube']}")
    headwater_test.stop()

    found = ask.by_site(ask.cells_of(headwater_test.spark, str(places["page_cube"]))).collect()
    assert [row.site for row in sorted(found)] == ["blog", "shop"]
    for row in found:
        own = [view for view in views if view["site"] == row.site]
        assert row.views == len(own)
        people = len({view["visitor"] for view in own})
        assert row.visitors == pytest.approx(people, rel=0.05)
        loads = sorted(float(str(view["load_ms"])) for view in own)
        rank = sum(load <= row.slow_ms for load in loads) / len(loads)
        assert rank == pytest.approx(0.95, abs=0.0165)
    pages: dict[tuple[object, object], set[object]] = {}
    for view in views:
        pages.setdefault((view["site"], view["visitor"]), set()).add(view["page"])
    several = [site for (site, _), read in pages.items() if len(read) > 1]
    assert ask.came_back(str(places["page_views_raw"])) == [
        (site, several.count(site)) for site in ("blog", "shop")
    ]
