"""Files for Prometheus and Grafana that `headwater monitoring DIR` writes; a test knows their metrics."""

from __future__ import annotations

from importlib.resources import files

FILES = ("prometheus.yml", "prometheus-rules.yml", "grafana-headwater.json")


def contents(name: str) -> str:
    """Of one of `FILES`, as it lies in the package."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
