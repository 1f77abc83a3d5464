"""Nexmark, by which stream processors are compared: its events, and its queries beside other engines.

`python -m bench.nexmark` (make bench-nexmark); `python -m bench.nexmark.generate` writes the events alone.
"""
